//! Whether everything fits and can be read: small and large, light and dark, with nothing, with much, and in trouble.

use std::time::{Duration, Instant};

use serde_json::json;

use super::browser::Browser;
use super::start;
use super::support::http::send;
use super::support::{Broker, HANG, RawClient, commit, frame, scratch, scratch_in_memory};

const WIDTHS: &[u32] = &[375, 1280, 2000];
const PAGES: &[&str] = &[
    "",
    "topics",
    "topics/orders",
    "topics/orders/messages",
    "topics/orders/settings",
    "groups",
    "groups/billing",
    "connections",
    "config",
];

/// Goes through the pages at every width, light and dark.
fn look(browser: &Browser, name: &str, pages: &[&str]) {
    for page in pages {
        browser.go(&format!("#/{page}"));
        browser.wait_until(
            "return document.querySelector('main') && !document.querySelector('main [aria-busy]')",
        );
        for width in WIDTHS {
            browser.size(*width, 900);
            for scheme in ["light", "dark"] {
                browser.prefer(scheme);
                browser.wait_until(&format!(
                    "return innerWidth === {width} && matchMedia('(prefers-color-scheme: {scheme})').matches"
                ));
                let over = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
                assert_eq!(browser.script(over), 0, "{page} at {width} px scrolls sideways");
                assert_contrast(browser, &format!("{page}, {scheme}"));
                let page =
                    if page.is_empty() { "overview".to_owned() } else { page.replace('/', "-") };
                browser.picture(&format!("{name}-{page}-{width}-{scheme}"));
            }
        }
        browser.size(1280, 900);
    }
    browser.assert_clean();
}

/// Text stands out from what is behind it by 4.5 to 1 at least, as WCAG AA wants; what is disabled is left out.
fn assert_contrast(browser: &Browser, at: &str) {
    let weak = browser.script(
        "const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
            .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
        const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
        const behind = (node) => {
            for (let at = node; at; at = at.parentElement) {
                const color = numbers(getComputedStyle(at).backgroundColor);
                if (color.length < 4 || color[3] === 1) return color;
            }
            return [255, 255, 255];
        };
        const texts = [...document.querySelectorAll('body *')].filter((node) => node.checkVisibility() && !node.disabled
            && !node.closest('svg, option') && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
        return texts.map((node) => {
            const [a, b] = [light(numbers(getComputedStyle(node).color)), light(behind(node))];
            return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.innerText.slice(0, 40)];
        }).filter(([ratio]) => ratio < 4.5)",
    );
    assert_eq!(weak, json!([]), "{at}");
}

fn fill(broker: &Broker, records: u64) {
    let topic = json!({ "name": "orders", "partitions": 3 });
    assert_eq!(send(broker.admin(), "POST", "/api/v1/topics", &topic).status, 201);
    for partition in 0..3 {
        let mut producer = RawClient::produce(broker.addr(), "orders", partition);
        for number in 0..records {
            let payload = format!(
                r#"{{"order":{number},"customer":"customer-{}","items":[1,2,3]}}"#,
                number % 7
            );
            producer.append(&frame(
                1_800_000_000_000_000_000,
                format!("customer-{}", number % 7).as_bytes(),
                payload.as_bytes(),
            ));
        }
    }
}

#[test]
fn with_nothing_in_it() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    let Some(browser) = Browser::open(broker.admin(), "#/") else { return };
    look(&browser, "empty", &["", "topics", "groups"]);
}

#[test]
fn with_a_group_far_behind() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    fill(&broker, 60);
    commit(broker.addr(), "billing", "orders", 0, 1);
    commit(broker.addr(), "billing", "orders", 2, 40);
    let _consumer = RawClient::consume(
        broker.addr(),
        "fraud-detection-in-the-southern-hemisphere",
        "orders",
        1,
    );
    let Some(browser) = Browser::open(broker.admin(), "#/") else { return };
    browser.wait_until("return document.querySelectorAll('.two tbody tr').length >= 1");
    look(&browser, "behind", PAGES);
    browser.go("#/groups/billing");
    browser.wait_until("return document.querySelectorAll('.chart .line').length === 2");
    let lag = browser.script("return document.querySelector('.chart').getAttribute('aria-label')");
    assert!(lag.as_str().unwrap().contains("orders/0 59"), "{lag}");
}

#[test]
fn with_a_thousand_topics() {
    let (_dir, data) = scratch_in_memory();
    let config = data.with_extension("toml");
    let topic = |number: u32| format!("[[topic]]\nname = \"topic-{number:04}\"");
    let topics: Vec<_> = (0..1000).map(topic).collect();
    std::fs::write(&config, topics.join("\n")).unwrap();
    let mut broker = start(&data).arg("--config").arg(&config).spawn();
    let begun = Instant::now();
    // So many are created one by one, which may take longer than anything else here.
    while !broker.log_text().contains("\"listening\"") {
        assert!(broker.is_running() && begun.elapsed() < 10 * HANG, "{}", broker.log_text());
        std::thread::sleep(Duration::from_millis(50));
    }
    let Some(browser) = Browser::open(broker.admin(), "#/topics") else { return };
    browser.wait_for_text("1 to 100 of 1,000");
    browser.press("Next");
    browser.wait_for_text("topic-0100");
    assert_eq!(browser.count("tbody tr"), 100);
    look(&browser, "thousand", &["", "topics"]);
    browser.fill("input[type=search]", "topic-0999");
    browser.wait_until("return document.querySelectorAll('tbody tr').length === 1");
    browser.click("a[href='#/topics/topic-0999']");
    browser.wait_for_text("Declared in the configuration");
    browser.assert_clean();
}

#[test]
fn with_a_full_disk() {
    let (_dir, data) = scratch();
    let free = rustix::fs::statvfs(data.parent().unwrap()).unwrap();
    let more = ((free.f_blocks * free.f_frsize) >> 20) + 1;
    let broker = start(&data).env("HERMITMQ_STORAGE__MIN_FREE_MB", more).run();
    let topic = json!({ "name": "orders" });
    send(broker.admin(), "POST", "/api/v1/topics", &topic);
    let Some(browser) = Browser::open(broker.admin(), "#/") else { return };
    browser.wait_for_text("Not ready");
    browser.wait_for_text("producers are told to retry");
    browser.wait_for_text("Too little: no record is stored");
    look(&browser, "full", &[""]);
}

#[test]
fn no_field_lies_on_another() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    fill(&broker, 1);
    let Some(browser) = Browser::open(broker.admin(), "#/topics/orders/messages") else { return };
    browser.choose("[name=from]", "timestamp");
    for width in WIDTHS {
        browser.size(*width, 900);
        browser.wait_until(&format!("return innerWidth === {width}"));
        let overlaps = browser.script(
            "const boxes = [...document.querySelectorAll('.controls :is(input, select, button)')]
                .filter((one) => one.checkVisibility()).map((one) => [one.name, one.getBoundingClientRect()]);
            return boxes.flatMap(([a, x]) => boxes.filter(([b, y]) => a < b && x.left < y.right && y.left < x.right
                && x.top < y.bottom && y.top < x.bottom).map(([b]) => `${a} ${b}`))",
        );
        assert_eq!(overlaps, json!([]), "at {width} px");
    }
}
