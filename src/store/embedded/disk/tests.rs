//! Before and after its failure a disk reads as what was written to it.

use proptest::{collection::vec, prelude::*};

use super::*;

/// A file in memory that fails from some change on.
#[derive(Debug)]
struct Failing {
    content: Mutex<Vec<u8>>,
    left: Mutex<u32>,
}

impl Failing {
    fn change(&self) -> io::Result<MutexGuard<'_, Vec<u8>>> {
        let mut left = self.left.lock().unwrap();
        *left = left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        Ok(self.content.lock().unwrap())
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.content.lock().unwrap();
        let from = offset as usize;
        out.copy_from_slice(content.get(from..from + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change()?.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change().map(drop)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change()?[offset as usize..offset as usize + data.len()].copy_from_slice(data);
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Resize(u64),
    Write(prop::sample::Index, Vec<u8>),
    Sync,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0u64..200).prop_map(Step::Resize),
        6 => (any::<prop::sample::Index>(), vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Step::Write(at, bytes)),
        1 => Just(Step::Sync),
    ]
}

proptest! {
    #[test]
    fn a_disk_reads_as_what_was_written_to_it_whenever_it_fails(steps in vec(any_step(), 1..40), left in 0u32..40) {
        let disk = Disk::new(Failing { content: Mutex::new(vec![0; 100]), left: Mutex::new(left) });
        let mut expected = vec![0u8; 100];
        let mut at_failure = None;
        for step in steps {
            match step {
                Step::Resize(len) => {
                    disk.set_len(len).unwrap();
                    expected.resize(len as usize, 0);
                }
                Step::Write(at, bytes) => {
                    if bytes.len() > expected.len() {
                        continue;
                    }
                    let at = at.index(expected.len() - bytes.len() + 1);
                    disk.write(at as u64, &bytes).unwrap();
                    expected[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                Step::Sync => disk.sync_data().unwrap(),
            }
            prop_assert_eq!(disk.len().unwrap(), expected.len() as u64);
            let mut found = vec![0xEE; expected.len()];
            disk.read(0, &mut found).unwrap();
            prop_assert_eq!(&found, &expected);
            // In pieces, so that pieces of writes are read.
            for (number, piece) in expected.chunks(7).enumerate() {
                let mut found = vec![0xEE; piece.len()];
                disk.read(number as u64 * 7, &mut found).unwrap();
                prop_assert_eq!(&found, piece);
            }
            if disk.failure().is_some() {
                let frozen = disk.shared.file.content.lock().unwrap().clone();
                prop_assert_eq!(at_failure.get_or_insert_with(|| frozen.clone()), &frozen, "the file was touched");
            }
        }
    }
}
