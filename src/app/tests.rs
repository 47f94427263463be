//! Tests of `app`.

use std::path::Path;

use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::{config, store::OpenError};

fn settings(more: &str) -> Settings {
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[upstream]\n\
         url = \"http://127.0.0.1:9\"\n[store]\nurl = \"memory:\"\n{more}"
    );
    config::parse(&text, "test.toml", Path::new(""), &|_| None).expect("a valid configuration").settings
}

async fn is_open(address: &str) -> bool {
    TcpStream::connect(address).await.is_ok()
}

#[tokio::test]
async fn a_gate_serves_until_it_is_stopped_and_then_nothing_listens() {
    let app = App::start(settings("")).await.expect("it starts");
    let address = app.address().to_owned();
    let admin = app.admin_address().expect("an admin listener").to_string();
    assert!(is_open(&address).await);
    assert!(is_open(&admin).await);
    app.stop(Duration::from_secs(5)).await.expect("it ends well");
    assert!(!is_open(&address).await);
    assert!(!is_open(&admin).await);
}

#[tokio::test]
async fn a_taken_address_is_named_with_its_key_and_a_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let mut data = settings("");
    data.proxy.listen = crate::proxy::Listen::Tcp(address.clone());
    let mut admin = settings("");
    admin.admin.listen = Some(address.clone());
    for (settings, key) in [(data, "server.listen"), (admin, "admin.listen")] {
        let failure = App::start(settings).await.expect_err("the address is taken").to_string();
        assert!(failure.starts_with(&format!("cannot listen on {address} ({key}): ")), "{failure}");
        assert!(failure.ends_with(". Another process is there: stop it, or choose another address"), "{failure}");
    }
}

#[tokio::test]
async fn a_reload_keeps_what_needs_a_restart_and_names_it() {
    let mut app = App::start(settings("")).await.expect("it starts");
    let mut new = settings("namespace = \"other\"\ntimeout = \"100ms\"\n[defaults]\nretention = \"48h\"");
    new.proxy.listen = crate::proxy::Listen::Tcp("127.0.0.1:1".to_owned());
    new.admin.listen = None;
    let old = app.settings.clone();
    assert_eq!(app.take_over(new), ["server.listen", "admin.listen", "[store]"]);
    assert_eq!(app.settings.store, old.store);
    assert_eq!(app.settings.proxy, old.proxy);
    assert_eq!(app.settings.admin, old.admin);
    assert_eq!(app.settings.routes.defaults.policy.retention, Duration::from_secs(48 * 3600));
    app.stop(Duration::ZERO).await.expect("it ends well");
}

#[tokio::test]
async fn a_reload_keeps_the_pool_of_an_unchanged_upstream() {
    let mut app = App::start(settings("")).await.expect("it starts");
    let pool = Arc::clone(&app.upstream);
    assert!(app.take_over(settings("[defaults]\nretention = \"48h\"")).is_empty());
    assert!(Arc::ptr_eq(&pool, &app.upstream));
    let mut new = settings("");
    new.upstream.idle_reuse = Duration::from_secs(9);
    assert!(app.take_over(new).is_empty());
    assert!(!Arc::ptr_eq(&pool, &app.upstream));
    assert_eq!(app.upstream.settings().idle_reuse, Duration::from_secs(9));
    app.stop(Duration::ZERO).await.expect("it ends well");
}

#[test]
fn a_store_that_cannot_be_opened_says_whether_it_is_its_file() {
    let file = std::path::PathBuf::from("oncegate.redb");
    assert!(matches!(Failure::from(OpenError::Unfit("evicts".to_owned())), Failure::StoreUnfit(_)));
    assert!(matches!(Failure::from(OpenError::InUse(file.clone())), Failure::StoreFile(_)));
    let broken = OpenError::File { path: file, source: "broken".into() };
    let Failure::StoreFile(text) = Failure::from(broken) else { panic!("a file that cannot be opened") };
    assert_eq!(text, "the store oncegate.redb cannot be opened: broken");
}
