//! What the pages show when they cannot show what they are for.

use super::browser::Browser;
use super::gate::{Gate, Rule};
use super::support::{RawClient, frame, scratch};
use super::{api, start};

const PAGES: &[&str] = &["#/", "#/topics", "#/groups", "#/connections", "#/config"];

#[test]
fn an_empty_broker_says_what_comes_here() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    let Some(browser) = Browser::open(broker.admin(), "#/") else { return };
    for (page, text) in [
        ("#/", "No topics yet"),
        ("#/topics", "No topics yet"),
        ("#/groups", "No groups yet"),
        ("#/connections", "Nobody is connected"),
    ] {
        browser.go(page);
        browser.wait_for_text(text);
    }
    browser.assert_clean();
    for (page, text) in [
        ("#/topics/none", "There is no such topic"),
        ("#/groups/none", "There is no such group"),
        ("#/nothing", "There is no such page"),
    ] {
        browser.go(page);
        browser.wait_for_text(text);
    }
}

#[test]
fn a_broker_that_goes_and_comes_back_is_noticed() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    let (addr, admin) = (broker.addr(), broker.admin());
    RawClient::produce(addr, "orders", 0).append(&frame(1, b"", b"x"));
    let Some(browser) = Browser::open(admin, "#/topics") else { return };
    browser.wait_for_text("orders");
    broker.kill();
    browser.wait_until("return !document.getElementById('banner').hidden");
    assert!(browser.text("#banner").contains("does not answer"), "{}", browser.text("#banner"));
    browser.wait_for_text("orders");
    browser.go("#/groups");
    browser.wait_until("return document.querySelector('main [data-state=error]')");
    let again = start(&data).port(addr.port()).env("HERMITMQ_ADMIN__LISTEN", admin).run();
    browser.wait_until("return document.getElementById('banner').hidden");
    browser.wait_for_text("No groups yet");
    browser.wait_for_text("The broker answers again");
    RawClient::produce(again.addr(), "payments", 0).append(&frame(1, b"", b"x"));
    browser.go("#/topics");
    browser.wait_for_text("payments");
}

#[test]
fn who_is_unknown_signs_in() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    RawClient::produce(broker.addr(), "orders", 0).append(&frame(1, b"", b"x"));
    let gate = Gate::before(broker.admin(), Rule::Token("right"));
    let Some(browser) = Browser::open(gate.addr, "#/") else { return };
    for page in PAGES {
        browser.go(page);
        browser.reload();
        browser.wait_until("return document.querySelector('main [data-state=unauthorised]')");
        assert_eq!(browser.text("#live-text"), "Signed out");
    }
    browser.go("#/topics");
    browser.fill("[name=token]", "wrong");
    browser.press("Sign in");
    browser.wait_for_text("The broker does not accept this token.");
    browser.fill("[name=token]", "right");
    browser.press("Sign in");
    browser.wait_for_text("orders");
    browser.wait_until("return document.getElementById('live-text').innerText === 'Live'");
    assert_eq!(
        browser.script("return [sessionStorage.length, localStorage.length, document.cookie]"),
        serde_json::json!([1, 0, ""])
    );
    browser.reload();
    browser.wait_for_text("orders");
    // It is forgotten when it is no longer taken, in the middle of everything.
    gate.set(Rule::Token("another"));
    browser.wait_until("return document.querySelector('main [data-state=unauthorised]')");
    assert_eq!(browser.script("return sessionStorage.length"), 0);
    gate.set(Rule::Token("right"));
    browser.fill("[name=token]", "right");
    browser.press("Sign in");
    browser.wait_for_text("orders");
    browser.press("Sign out");
    browser.wait_until("return document.querySelector('main [data-state=unauthorised]')");
    // A network is not enough under a name that anybody may have chosen: a token is.
    gate.set(Rule::Strange("right"));
    browser.reload();
    browser.wait_until("return document.querySelector('main [data-state=unauthorised]')");
    browser.fill("[name=token]", "right");
    browser.press("Sign in");
    browser.wait_for_text("orders");
}

#[test]
fn who_may_not_is_told() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    RawClient::produce(broker.addr(), "orders", 0).append(&frame(1, b"", b"x"));
    let gate = Gate::before(broker.admin(), Rule::Nothing);
    let Some(browser) = Browser::open(gate.addr, "#/") else { return };
    for page in PAGES {
        browser.go(page);
        browser.wait_until("return document.querySelector('main [data-state=forbidden]')");
        browser.wait_for_text("this token may not do that");
    }
    // Asking again and again would be told the same, and fill the audit log.
    browser.wait_until("return performance.now() > 5000");
    assert_eq!(gate.watched(), 1);
    gate.set(Rule::Token("reader"));
    browser.go("#/topics/orders");
    browser.wait_until("return document.querySelector('[name=token]')");
    gate.set(Rule::ReadOnly("reader"));
    browser.fill("[name=token]", "reader");
    browser.press("Sign in");
    browser.press("Delete");
    browser.fill("dialog [name=confirm]", "orders");
    browser.press("Delete the topic");
    browser.wait_until(
        "return document.querySelector('.form-error')?.innerText.startsWith('Not allowed')",
    );
    assert_eq!(api(&broker, "/cluster")["counts"]["topics"], 1);
}

#[test]
fn what_has_not_come_yet_is_loading() {
    let (_dir, data) = scratch();
    let broker = start(&data).run();
    let gate = Gate::before(broker.admin(), Rule::Silence);
    let Some(browser) = Browser::open(gate.addr, "#/") else { return };
    for page in PAGES {
        browser.go(page);
        browser.wait_until(
            "return document.querySelector('main [aria-busy=true] [data-state=loading]')",
        );
    }
}
