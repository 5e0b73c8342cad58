// Nodes from values. Text is always text: nothing that a record, a name or an error holds is ever read as markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name === 'value') {
      node.value = value;
    } else {
      node.setAttribute(name, value === true ? '' : value);
    }
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An element: `h('p', { class: 'a', on: { click } }, 'text', node)`. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An element of a drawing. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Sets a node's text if it is another one, so that selections and screen readers are left in peace. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
