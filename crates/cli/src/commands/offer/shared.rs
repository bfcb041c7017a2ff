//! A program for all requesters of a stream: started by the first, and stopped after the last.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use roost_api::{Client, Frame, OfferData, OfferRequest, OfferedRate};
use roost_wire::FlowKind;
use tokio::io::BufReader;
use tokio::process::ChildStdout;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::answer::{BACKLOG, next_datagram};
use super::program::Program;
use crate::args::OfferArgs;

/// The requesters of a shared program, and its reader. Clones share them.
#[derive(Clone, Default)]
pub(super) struct SharedProgram(Arc<Mutex<Running>>);

#[derive(Default)]
struct Running {
    takers: BTreeMap<u64, mpsc::Sender<OfferData>>,
    reader: Option<AbortHandle>,
    /// The number of the program's starts.
    runs: u64,
}

/// A requester of the program until this is dropped.
struct Taker {
    number: u64,
    shared: SharedProgram,
}

impl Drop for Taker {
    fn drop(&mut self) {
        let mut running = self.shared.lock();
        running.takers.remove(&self.number);
        if running.takers.is_empty()
            && let Some(reader) = running.reader.take()
        {
            // The program is killed with its reader.
            reader.abort();
        }
    }
}

impl SharedProgram {
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a requester what the program writes from now on.
    pub(super) async fn answer(
        &self,
        args: &Arc<OfferArgs>,
        client: &Client,
        request: &OfferRequest,
    ) -> Result<(), String> {
        let number = request.request;
        if !request.params.is_empty() {
            let reason = "one program serves all requesters of it, so it takes no parameters";
            let _ = client.decline(number, reason).await;
            return Err(format!("declined: {reason}"));
        }
        let (give, data) = mpsc::channel(BACKLOG);
        let _taker = match self.join(args, request, give) {
            Ok(taker) => taker,
            Err(reason) => {
                let _ = client.decline(number, "its program cannot be started").await;
                return Err(reason);
            }
        };
        client.give(number, &args.format, data).await.map(drop).map_err(|error| error.to_string())
    }

    /// Adds a requester; the first one starts the program.
    fn join(
        &self,
        args: &Arc<OfferArgs>,
        request: &OfferRequest,
        give: mpsc::Sender<OfferData>,
    ) -> Result<Taker, String> {
        let number = request.request;
        let mut running = self.lock();
        if running.reader.is_none() {
            let program = Program::start(args, request, Stdio::null())?;
            running.runs += 1;
            let reader = self.clone().read(Arc::clone(args), program, running.runs);
            running.reader = Some(tokio::spawn(reader).abort_handle());
        }
        running.takers.insert(number, give);
        Ok(Taker { number, shared: self.clone() })
    }

    /// Passes each datagram to all requesters, until the program ends.
    async fn read(self, args: Arc<OfferArgs>, mut program: Program, run: u64) {
        let ended = match program.child.stdout.take() {
            Some(output) => self.pass_on(&args, BufReader::new(output)).await,
            None => Err("it has no output".to_owned()),
        };
        let ended = match ended {
            Ok(()) => program.end().await,
            failed => failed,
        };
        let takers = {
            let mut running = self.lock();
            if running.runs != run {
                // The requesters of this run have gone, and others have started the next one.
                return;
            }
            // A requester that comes now starts the program again.
            running.reader = None;
            std::mem::take(&mut running.takers)
        };
        for give in takers.into_values().filter(|_| ended.is_ok()) {
            // Each has the rest of its stream to take first, and some have gone.
            tokio::spawn(async move { drop(give.send(OfferData::End).await) });
        }
    }

    async fn pass_on(&self, args: &OfferArgs, mut output: BufReader<ChildStdout>) -> Result<(), String> {
        let FlowKind::Stream { bits_per_second, .. } = args.offer().flow_kind() else { return Ok(()) };
        let (mut rate, began) = (OfferedRate::new(bits_per_second), Instant::now());
        while let Some(datagram) = next_datagram(args, &mut output).await? {
            let due = rate.count(began.elapsed(), datagram.len());
            let frame = Frame::Data(datagram).encode();
            for give in self.lock().takers.values() {
                // A requester that does not keep up misses datagrams, and the others do not.
                let _ = give.try_send(OfferData::Part(frame.clone()));
            }
            tokio::time::sleep_until(began + due).await;
        }
        Ok(())
    }
}
