// The broker's API: requests with the token of this tab, problems as errors, and the stream of events.

const BASE = '/api/v1';
const TOKEN = 'hermitmq.token';
const SILENCE_MS = 15000;
const RETRY_MS = 1500;

/** The token lives as long as the tab. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
};

/** What was asked for was not done. `status` is 0 if the broker did not answer. */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || 'The request failed');
    this.status = status;
    this.title = problem.title || 'The request failed';
    this.field = problem.field;
    this.type = problem.type || '';
  }

  /** A token would help: who asks is not known, or known by a network alone under a name that anybody may have chosen. */
  get wantsToken() {
    return this.status === 401 || this.status === 421;
  }

  /** It may be well again without anybody's doing: the broker is away, or starts. */
  get passes() {
    return this.status === 0 || this.status === 503;
  }
}

async function send(method, path, { body, signal, accept } = {}) {
  const headers = { accept: accept ?? 'application/json' };
  const bearer = token.get();
  if (bearer) headers.authorization = `Bearer ${bearer}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  let response;
  try {
    response = await fetch(BASE + path, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: 'no-store',
      credentials: 'omit',
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { title: 'The broker does not answer' });
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({ title: `The broker answered ${response.status}` }));
  throw new ApiError(response.status, problem);
}

/** Asks, and gives what was answered; `null` where that is nothing. */
export async function request(method, path, body, signal) {
  const response = await send(method, path, { body, signal });
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { title: 'The broker did not answer in full' });
  }
}

/** A path of parts that may hold anything. */
export const path = (...parts) => parts.map((part) => `/${encodeURIComponent(part)}`).join('');

const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

/**
 * Hands on every snapshot until `signal` ends it, and each error that interrupts the stream. Gives up only where it is not allowed:
 * asking again would say so again. A stream that ends in order is asked for again without a word: who may watch is judged anew, or
 * the broker goes down, which the next answer says.
 */
export async function watch(onSnapshot, onError, signal) {
  while (!signal.aborted) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener('abort', stop);
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(stop, SILENCE_MS);
    };
    try {
      heard();
      const response = await send('GET', '/events', { signal: attempt.signal, accept: 'text/event-stream' });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        heard();
        const events = (text + value).split('\n\n');
        text = events.pop();
        for (const event of events) {
          const data = event.split('\n').find((line) => line.startsWith('data: '));
          if (data) onSnapshot(JSON.parse(data.slice(6)));
        }
      }
    } catch (error) {
      if (!signal.aborted) onError(error instanceof ApiError ? error : new ApiError(0, { title: 'The broker does not answer' }));
      if (error.status === 403) return;
    } finally {
      clearTimeout(silence);
      signal.removeEventListener('abort', stop);
    }
    await pause(RETRY_MS);
  }
}
