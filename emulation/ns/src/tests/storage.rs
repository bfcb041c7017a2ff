//! Blockstores.

use super::*;

#[test]
fn remote_blockstore_adds_host_and_link() {
    let of = three(
        "set bs [$ns blockstore]\n$bs set-class SAN\n$bs set-size 10GiB\n$bs set-node $a\n$bs set-mount-point /mnt",
    );
    assert_eq!(host_names(&of), ["a", "b", "c", "blockhost-bs"]);
    assert_eq!(
        (of.hosts[3].hardware.as_deref(), members(&of, "bs-link")),
        (Some("blockstore"), vec!["a".to_owned(), "blockhost-bs".to_owned()])
    );
    assert_eq!(of.emulab.best_effort, [0]);
}

#[test]
fn blockstore_joins_own_link_or_lan() {
    let of =
        three("set bs [$ns blockstore]\n$bs set-class SAN\n$bs set-size 1GB\nset l [$ns make-lan \"$a $bs $b\" ~ 0ms]");
    assert_eq!(members(&of, "l"), ["a", "blockhost-bs", "b"]);
    let local = three("set bs [$ns blockstore]\n$bs set-class local\n$bs set-node $a");
    assert_eq!((local.hosts.len(), local.nets.len()), (3, 0));
}

#[test]
fn a_blockstore_must_be_complete() {
    for (description, reason) in [
        ("set bs [$ns blockstore]", "is not attached to anything"),
        ("set bs [$ns blockstore]; $bs set-node $a", "has no class"),
        ("set bs [$ns blockstore]; $bs set-node $a; $bs set-class SAN", "has no size"),
    ] {
        let error = read(&format!("set a [$ns node]\n{description}")).unwrap_err();
        assert!(error.message.contains(reason), "{error}");
    }
}
