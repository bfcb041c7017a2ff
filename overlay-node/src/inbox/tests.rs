use super::*;

fn node(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

#[test]
fn missing_folder_is_made() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("new").join("inbox");
    Inbox::new(folder.clone(), 1).check().unwrap();
    assert!(folder.is_dir() && fs::read_dir(&folder).unwrap().next().is_none());
    fs::write(parent.path().join("file"), "").unwrap();
    let refused = Inbox::new(parent.path().join("file"), 1).check().unwrap_err();
    assert!(refused.contains("this user may write to"), "{refused}");
}

#[test]
fn files_count_with_their_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = Inbox::new(folder.path().to_owned(), 10 * quota::BLOCK);
    for number in 0..8 {
        fs::write(folder.path().join(number.to_string()), "x").unwrap();
    }
    inbox.read_now();
    assert!(inbox.has_place(node(1), "a", 2 * quota::BLOCK));
    assert!(!inbox.has_place(node(1), "a", 2 * quota::BLOCK + 1));
    fs::remove_file(folder.path().join("0")).unwrap();
    inbox.read_now();
    assert!(inbox.has_place(node(1), "a", 2 * quota::BLOCK + 1), "whoever takes files out makes room");
}

#[test]
fn only_old_parts_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = Inbox::new(folder.path().to_owned(), 1 << 20);
    let part = format!("{}.part", hidden(node(1), &ObjectIdentity { digest: [1; 32], length: 9 }));
    let old = SystemTime::now() - quota::PART_LIFE - Duration::from_secs(60);
    let names = [part.as_str(), &format!("{part}.json"), "survey.tif", ".other.part", "x.part.json"];
    for name in names {
        let file = fs::File::create(folder.path().join(name)).unwrap();
        file.set_modified(old).unwrap();
    }
    inbox.read_now();
    let left: Vec<bool> = names.iter().map(|name| folder.path().join(name).exists()).collect();
    assert_eq!(left, [false, false, true, true, true]);
}

#[test]
fn transfer_must_match_its_offer() {
    let (id, name) = (roost_wire::RequestId(1), String::new());
    let push = Push { id, name, bytes: 10, digest: [1; 32], addresses: Vec::new(), delivery: None };
    let offer = |bytes, number, offset| FlowDescription::Object {
        format: "image/tiff".to_owned(),
        bytes,
        digest: [number; 32],
        inline: None,
        offset,
    };
    assert!(is_offered(&offer(10, 1, Some(4)), &push, 4));
    for (bytes, number, offset) in [(u64::MAX, 1, Some(4)), (10, 2, Some(4)), (10, 1, Some(5)), (10, 1, None)] {
        assert!(!is_offered(&offer(bytes, number, offset), &push, 4), "{bytes} {number} {offset:?}");
    }
}

#[test]
fn transfer_without_data_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = Arc::new(Inbox::new(folder.path().to_owned(), 1 << 30));
    let whole = ObjectIdentity { digest: [1; 32], length: 2 * MIN_PART_BYTES };
    let object = hidden(node(1), &whole);
    assert!(inbox.lock().enter(node(1), &object));
    let part = Some(PartialFile::create(&folder.path().join(&object), whole).unwrap());
    let incoming =
        Incoming { inbox: Arc::clone(&inbox), from: node(1), object, whole, part, has_begun: false, delivery: None };
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    drop(incoming);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn file_that_gets_its_name_holds_up_no_offer_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = Arc::new(Inbox::new(folder.path().to_owned(), 1 << 30));
    inbox.read_now();
    let terms =
        |number| DeliveryTerms { id: roost_wire::DeliveryId::from_bytes([number; 8]), until_s: u64::MAX, left_s: 60 };
    let taken = inbox.take_delivery(node(1), terms(1)).await.unwrap();
    let ((started, begun), (release, gate)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let (naming, part) = (Arc::clone(&inbox), folder.path().join(".x.part"));
    let slow = std::thread::spawn(move || {
        naming.receipts.store(&taken, &part, || {
            started.send(()).unwrap();
            // With nobody to release it, a slow disk for two seconds.
            let _ = gate.recv_timeout(Duration::from_secs(2));
            Ok(part.clone())
        })
    });
    begun.recv().unwrap();
    let mut offer = std::pin::pin!(inbox.take_delivery(node(1), terms(2)));
    tokio::select! {
        biased;
        _ = &mut offer => panic!("the daemon's thread stood still"),
        () = tokio::task::yield_now() => release.send(()).unwrap(),
    }
    assert!(offer.await.is_ok());
    assert!(slow.join().unwrap().unwrap().is_ok());
}
