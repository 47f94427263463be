//! Tests of `cli::demo`.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_show_holds_and_leaves_nothing_behind() {
    assert!(show(false).await.expect("the show goes on"));
}

#[test]
fn the_folder_goes_when_we_go() {
    let folder = Folder::create().expect("a folder");
    let path = folder.path().to_owned();
    std::fs::write(path.join("x"), "x").expect("written");
    drop(folder);
    assert!(!path.exists());
}
