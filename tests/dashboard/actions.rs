//! Each thing that can be done on a page, asserted at the broker.

use hermitmq::model::TopicName;
use hermitmq::protocol::v1_1::{Durability, Handshake, Role};
use serde_json::{Value, json};

use super::browser::{Browser, ENTER, ESCAPE, TAB};
use super::support::http::{get, send};
use super::support::{Broker, RawClient, commit, drain, frame, scratch, v1_1, wait_for};
use super::{api, start};

/// Would run if a page took it for markup.
const MARKUP: &str = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>";

fn status(broker: &Broker, path: &str) -> u16 {
    get(broker.admin(), &format!("/api/v1{path}")).status
}

#[test]
fn a_topic_is_created_altered_and_deleted() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    let Some(browser) = Browser::open(broker.admin(), "#/") else { return };
    browser.wait_for_text("No topics yet");
    browser.press("Create a topic");
    browser.fill("dialog [name=name]", "no good");
    browser.press("Create");
    browser.wait_until("return document.querySelector('dialog .field-error:not(:empty)')");
    assert_eq!(api(&broker, "/cluster")["counts"]["topics"], 0);
    // The refusal is the only complaint, and is wanted.
    assert!(browser.complaints().iter().all(|line| line.contains("400 (Bad Request)")));
    browser.fill("dialog [name=name]", "orders");
    browser.fill("dialog [name=partitions]", "2");
    browser.press("Create");
    browser.wait_for_text("Topic orders was created");
    assert_eq!(api(&broker, "/topics/orders")["partitions"].as_array().unwrap().len(), 2);

    browser.wait_until("return location.hash === '#/topics/orders'");
    RawClient::produce(broker.addr(), "orders", 0).append(&frame(1, b"", b"record"));
    browser.press("Alter");
    browser.fill("dialog [name=partitions]", "3");
    browser.fill("dialog [name=retention_hours]", "24");
    browser.choose("dialog [name=durability]", "always");
    browser.press("Alter");
    browser.wait_for_text("Topic orders was altered");
    let altered = api(&broker, "/topics/orders");
    assert_eq!(altered["partitions"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&altered["settings"]["retention_hours"], &altered["settings"]["durability"]),
        (&json!(24), &json!("always"))
    );
    browser.press("Alter");
    browser.fill("dialog [name=retention_hours]", "");
    browser.press("Alter");
    wait_for("the default again", || {
        api(&broker, "/topics/orders")["settings"]["retention_hours"].is_null().then_some(())
    });
    browser.wait_until("return !document.querySelector('dialog')");

    browser.press("Delete");
    browser.wait_for_text("1 record (");
    let disabled = "return document.querySelector('dialog [type=submit]').disabled";
    assert_eq!(browser.script(disabled), true);
    browser.fill("dialog [name=confirm]", "order");
    assert_eq!(browser.script(disabled), true, "another name is no confirmation");
    browser.press("Cancel");
    assert_eq!(status(&broker, "/topics/orders"), 200);
    browser.press("Delete");
    browser.fill("dialog [name=confirm]", "orders");
    browser.press("Delete the topic");
    browser.wait_for_text("Topic orders was deleted");
    assert_eq!(status(&broker, "/topics/orders"), 404);
    browser.wait_for_text("No topics yet");
    browser.assert_clean();
}

#[test]
fn records_are_produced_and_looked_at_and_stay_text() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    let mut producer = RawClient::produce(broker.addr(), "orders", 0);
    producer.append(&frame(1_000_000_000, MARKUP.as_bytes(), MARKUP.as_bytes()));
    producer.append(&frame(
        2_000_000_000,
        b"",
        br#"{"amount":12345678901234567890,"note":"a:{b"}"#,
    ));
    producer.append(&frame(3_000_000_000, b"", b"\x00\xffhex"));
    let Some(browser) = Browser::open(broker.admin(), "#/topics/orders/messages") else { return };
    browser.wait_until("return document.querySelectorAll('.messages details').length === 3");
    for offset in 0..3 {
        browser.click(&format!("[data-offset='{offset}'] summary"));
    }
    let payload =
        |offset: u32| browser.text(&format!("[data-offset='{offset}'] .part:last-child pre"));
    assert_eq!(payload(0), MARKUP);
    assert_eq!(browser.text("[data-offset='0'] .part pre"), MARKUP, "the key");
    assert_eq!(payload(1), "{\n  \"amount\": 12345678901234567890,\n  \"note\": \"a:{b\"\n}");
    assert!(
        payload(2).contains("00 ff 68 65 78") && payload(2).contains("..hex"),
        "{}",
        payload(2)
    );
    browser.click("[data-offset='1'] [data-form=hex]");
    assert!(payload(1).starts_with("00000000  7b 22 61 6d 6f 75 6e 74"), "{}", payload(1));
    browser.allow_copying();
    browser.click("[data-offset='0'] .part:last-child .actions button:last-child");
    browser.wait_for_text("Copied");

    browser.choose("[name=from]", "offset");
    browser.fill("[name=offset]", "2");
    browser.press("Look");
    browser.wait_until("return document.querySelectorAll('.messages details').length === 1");
    browser.press("Older");
    browser.wait_until("return document.querySelectorAll('.messages details').length === 3");
    browser.choose("[name=from]", "timestamp");
    browser.script("document.querySelector('[name=timestamp]').value = new Date(Date.UTC(1970, 0, 1, 0, 0, 2) - new Date(0).getTimezoneOffset() * 60000).toISOString().slice(0, 19)");
    browser.press("Look");
    browser
        .wait_until("return document.querySelector('.messages details')?.dataset.offset === '1'");

    browser.press("Produce a record");
    browser.fill("dialog [name=key]", "customer-7");
    browser.fill("dialog [name=payload]", MARKUP);
    browser.press("Produce");
    browser.wait_for_text("Stored at offset 3 of partition 0");
    let stored = drain(broker.addr(), "test", "orders", 0).pop().unwrap();
    assert_eq!((stored.key(), stored.payload()), (&b"customer-7"[..], MARKUP.as_bytes()));
    browser
        .wait_until("return document.querySelector('.messages details')?.dataset.offset === '3'");
    assert_eq!(browser.script("return window.hacked"), Value::Null);
    assert_eq!(browser.count("main img, main script"), 0);
    browser.assert_clean();
    // And if a page did take it for markup one day: it would not run, and that would be seen here.
    browser.script(&format!("document.body.insertAdjacentHTML('beforeend', {})", json!(MARKUP)));
    browser.wait_until("return window.violations.includes('script-src-attr')");
    assert_eq!(browser.script("return window.hacked"), Value::Null);
}

#[test]
fn a_group_is_reset_behind_a_preview_and_deleted() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    let mut producer = RawClient::produce(broker.addr(), "orders", 0);
    for _ in 0..8 {
        producer.append(&frame(1, b"", b"x"));
    }
    commit(broker.addr(), "billing", "orders", 0, 5);
    let committed = || api(&broker, "/groups/billing")["offsets"][0]["committed"].clone();
    let Some(browser) = Browser::open(broker.admin(), "#/groups") else { return };
    browser.click("a[href='#/groups/billing']");
    browser.wait_until("return document.querySelector('.figure .value')?.innerText === '3'");
    browser.press("Reset");
    browser.press("Preview");
    browser.wait_for_text("5 records again");
    assert_eq!(committed(), 5, "a preview changes nothing");
    // Another choice wants another preview, also one made while the first is on its way; it is not sent twice.
    browser.script(
        "const fetch = window.fetch, held = new Promise((go) => { window.letGo = go; });
        window.fetch = (...all) => held.then(() => fetch(...all));",
    );
    browser.choose("dialog [name=partitions]", "0");
    browser.press("Preview");
    browser.choose("dialog [name=to]", "latest");
    assert_eq!(
        browser.script("return document.querySelector('dialog [type=submit]').disabled"),
        true
    );
    browser.script("window.letGo()");
    browser.wait_until("return !document.querySelector('dialog [aria-busy]')");
    assert_eq!(browser.text("dialog [type=submit]"), "Preview");
    browser.press("Preview");
    browser.wait_for_text("3 records skipped");
    browser.press("Reset the group");
    browser.wait_for_text("billing was put elsewhere in 1 partition");
    assert_eq!(committed(), 8);

    let consumer = RawClient::consume(broker.addr(), "billing", "orders", 0);
    wait_for("the consumer", || (api(&broker, "/groups/billing")["consumers"] == 1).then_some(()));
    browser
        .wait_until("return [...document.querySelectorAll('.figure .value')][1].innerText === '1'");
    browser.press("Reset");
    browser.press("Preview");
    browser.press("Reset the group");
    browser.wait_until(
        "return document.querySelector('.form-error')?.innerText.includes('connected')",
    );
    assert_eq!(committed(), 8);
    assert!(browser.complaints().iter().all(|line| line.contains("409 (Conflict)")));
    browser.press("Cancel");
    drop(consumer);
    wait_for("its leaving", || (api(&broker, "/groups/billing")["consumers"] == 0).then_some(()));
    browser.press("Delete");
    browser.fill("dialog [name=confirm]", "billing");
    browser.press("Delete the group");
    browser.wait_for_text("Group billing was deleted");
    assert_eq!(status(&broker, "/groups/billing"), 404);
    browser.assert_clean();
}

#[test]
fn a_connection_is_ended() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    let role = Role::Produce { durability: Durability::Topic };
    let mut handshake = Handshake::new(TopicName::parse("orders").unwrap(), 0, role);
    handshake.client.name = Some(MARKUP.to_owned());
    let mut bytes = Vec::new();
    handshake.write(&mut bytes).unwrap();
    let (mut client, _) = v1_1::open(broker.addr(), &bytes);
    let _other = RawClient::consume(broker.addr(), "billing", "orders", 0);
    let Some(browser) = Browser::open(broker.admin(), "#/connections") else { return };
    browser.wait_until("return document.querySelectorAll('tbody tr').length === 2");
    browser.wait_for_text("onerror");
    browser.fill("input[type=search]", "producer");
    browser.wait_until("return document.querySelectorAll('tbody tr').length === 1");
    browser.click("tbody button");
    browser.wait_for_text("The client may connect again.");
    assert_eq!(api(&broker, "/connections")["connections"].as_array().unwrap().len(), 2);
    browser.press("End the connection");
    browser.wait_for_text("was ended");
    client.read_to_end();
    wait_for("one less", || {
        (api(&broker, "/connections")["connections"].as_array().unwrap().len() == 1).then_some(())
    });
    browser.wait_for_text("No connection is like that");
    assert_eq!(browser.script("return window.hacked"), Value::Null);
    browser.assert_clean();
}

#[test]
fn the_configuration_is_shown_and_the_log_level_changed() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    let Some(browser) = Browser::open(broker.admin(), "#/config") else { return };
    browser.fill("input[type=search]", "storage.flush_interval_ms");
    browser.wait_until("return document.querySelectorAll('tbody tr').length === 1");
    let row = browser.text("tbody tr");
    assert!(row.contains("20") && row.contains("HERMITMQ_STORAGE__FLUSH_INTERVAL_MS"), "{row}");
    browser.press("Log level");
    browser.fill("dialog [name=log_level]", "warn");
    browser.press("Change");
    browser.wait_for_text("The log level is warn");
    assert_eq!(api(&broker, "/log-level")["log_level"], "warn");
    browser.assert_clean();
}

/// Goes on with the tabulator until the focus is there.
fn tab_to(browser: &Browser, words: &str) {
    for _ in 0..10 {
        if browser.focused() == words {
            return;
        }
        browser.keys(TAB);
    }
    panic!("{words} is not to be reached: the focus is on {}", browser.focused());
}

#[test]
fn the_keyboard_is_enough() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    for name in ["orders", "payments"] {
        assert_eq!(
            send(broker.admin(), "POST", "/api/v1/topics", &json!({ "name": name })).status,
            201
        );
    }
    let Some(browser) = Browser::open(broker.admin(), "#/") else { return };
    browser.wait_for_text("Healthy");
    browser.keys(TAB);
    assert_eq!(browser.focused(), "Skip to the content");
    browser.keys(ENTER);
    assert_eq!(browser.focused(), "Overview");
    browser.keys("?");
    browser.wait_until("return document.querySelector('dialog[open] kbd')");
    browser.keys(ESCAPE);
    browser.wait_until("return !document.querySelector('dialog')");
    browser.keys("2");
    browser.wait_until("return document.activeElement.innerText === 'Topics'");
    browser.wait_until("return document.querySelectorAll('tbody tr').length === 2");
    browser.keys("/");
    browser.keys("pay");
    browser.wait_until("return document.querySelectorAll('tbody tr').length === 1");
    // By the box behind the filter and the heads of the columns to the one that is left.
    tab_to(&browser, "payments");
    let outline = "return getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(browser.script(outline), "solid", "the focus shows");
    browser.keys(ENTER);
    browser.wait_until(
        "return location.hash === '#/topics/payments' && document.querySelector('.heading button')",
    );
    tab_to(&browser, "Produce a record");
    browser.keys(ENTER);
    browser.wait_until("return document.querySelector('dialog[open]')");
    // The focus is in the form, and stays in the dialog.
    assert_eq!(browser.focused(), "Partition");
    browser.keys(TAB);
    browser.keys("key");
    browser.keys(TAB);
    browser.keys("typed");
    browser.keys(TAB);
    browser.keys(TAB);
    browser.keys(TAB);
    assert_eq!(browser.focused(), "Produce");
    browser.keys(ENTER);
    browser.wait_for_text("Stored at offset 0");
    let stored = drain(broker.addr(), "test", "payments", 0).pop().unwrap();
    assert_eq!((stored.key(), stored.payload()), (&b"key"[..], &b"typed"[..]));
    browser.wait_until("return !document.querySelector('dialog')");
    assert_eq!(browser.focused(), "Produce a record", "the focus is back where it was");
    browser.back();
    browser.wait_until(
        "return location.hash === '#/topics' && document.querySelectorAll('tbody tr').length === 2",
    );
    browser.assert_clean();
}
