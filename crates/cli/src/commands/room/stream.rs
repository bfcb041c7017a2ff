//! A member's stream: requested, received, and requested again when it breaks off.

use std::time::Duration;

use roost_api::client::STREAM_PAUSES;
use roost_api::{Client, Frame, RequestEvent};
use roost_services::{SinkSpec, SinkState, TrackFormat};
use roost_terminal::Output;
use roost_wire::messages::ServiceRequest;
use roost_wire::{Area, Cell};
use tokio::sync::{mpsc, watch};

use super::super::output_writer::OutputWriter;
use super::outputs::MemberStream;
use crate::failure::{Code, Failure, Outcome};

pub(super) enum StreamUpdate {
    Accepted {
        reflected: bool,
    },
    /// The further bytes that came, and the further datagrams that did not.
    Came {
        bytes: u64,
        lost: u64,
    },
    /// The stream does not come, or no longer; it is requested again after `again`.
    Broken {
        failure: Failure,
        again: Duration,
    },
    /// The data could not be written; the stream ends.
    Unwritable(Failure),
}

pub(super) struct StreamTask {
    pub(super) client: Client,
    pub(super) key: MemberStream,
    pub(super) request: ServiceRequest,
    pub(super) to: Option<SinkSpec>,
    pub(super) format: TrackFormat,
    pub(super) output: Output,
    /// Receives the updates.
    pub(super) told: mpsc::Sender<(MemberStream, StreamUpdate)>,
}

enum AttemptEnd {
    /// The stream is no longer wanted, or its reader has gone.
    Unwanted,
    Broken(Failure),
    Unwritable(Failure),
}

/// The data of one request, by its last report.
#[derive(Default)]
struct StreamProgress {
    bytes: u64,
    /// The bytes of earlier updates.
    told: u64,
    lost: u64,
}

impl StreamTask {
    /// Receives until the other end of `place`, which tells the member's cell, is dropped.
    pub(super) async fn run(self, mut place: watch::Receiver<Cell>) {
        let mut pause = *STREAM_PAUSES.start();
        let keeping = OutputWriter::begin(self.request.service, self.to.as_ref(), self.format, self.output).await;
        let mut keeping = match keeping {
            Ok(keeping) => keeping,
            Err(failure) => return self.send_update(StreamUpdate::Unwritable(failure)).await,
        };
        let writable = loop {
            let mut brought = StreamProgress::default();
            let ended = self.attempt(&mut keeping, &mut brought, &mut place).await;
            self.tell_rest(&brought).await;
            let failure = match ended {
                AttemptEnd::Unwanted => break true,
                AttemptEnd::Broken(failure) => failure,
                AttemptEnd::Unwritable(failure) => {
                    self.send_update(StreamUpdate::Unwritable(failure)).await;
                    break false;
                }
            };
            pause = if brought.bytes > 0 { *STREAM_PAUSES.start() } else { pause };
            self.send_update(StreamUpdate::Broken { failure, again: pause }).await;
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(*STREAM_PAUSES.end()),
                () = dropped(&mut place) => break true,
            }
        };
        // A stream in a room has no end of its own: the data that came is all of it.
        let ended = if writable { keeping.finish().await } else { keeping.break_off().await };
        if let Err(failure) = ended {
            self.send_update(StreamUpdate::Unwritable(failure)).await;
        }
    }

    async fn attempt(
        &self,
        keeping: &mut OutputWriter<'_>,
        brought: &mut StreamProgress,
        place: &mut watch::Receiver<Cell>,
    ) -> AttemptEnd {
        // The member may have moved since the last request.
        let request = ServiceRequest { area: Area::Exact(*place.borrow_and_update()), ..self.request.clone() };
        let mut frames = tokio::select! {
            answer = self.client.request(&request) => match answer {
                Ok(frames) => frames,
                Err(error) => return AttemptEnd::Broken(error.into()),
            },
            () = dropped(place) => return AttemptEnd::Unwanted,
        };
        loop {
            let frame = tokio::select! {
                frame = frames.next() => frame,
                () = dropped(place) => return AttemptEnd::Unwanted,
            };
            match frame {
                Ok(Some(Frame::Data(data))) => {
                    brought.bytes += data.len() as u64;
                    match keeping.write(&data).await {
                        Ok(SinkState::Open) => {}
                        Ok(SinkState::Closed) => return AttemptEnd::Unwanted,
                        Err(failure) => return AttemptEnd::Unwritable(failure),
                    }
                }
                Ok(Some(Frame::Event(event))) => match self.handle_event(event, keeping, brought).await {
                    Ok(None) => {}
                    Ok(Some(broken)) => return AttemptEnd::Broken(broken),
                    Err(failure) => return AttemptEnd::Unwritable(failure),
                },
                Ok(None) => return AttemptEnd::Broken(Failure::new(Code::Damaged, "the daemon has broken it off")),
                Err(error) => return AttemptEnd::Broken(error.into()),
            }
        }
    }

    /// Handles an event. Returns the failure if nothing more comes after it.
    async fn handle_event(
        &self,
        event: RequestEvent,
        keeping: &mut OutputWriter<'_>,
        brought: &mut StreamProgress,
    ) -> Outcome<Option<Failure>> {
        match event {
            RequestEvent::Accepted(accepted) => {
                // Data from before a break is kept, and goes on in the same place.
                if !keeping.is_open() {
                    keeping.open(&accepted).await?;
                }
                self.send_update(StreamUpdate::Accepted { reflected: accepted.reflected }).await;
            }
            RequestEvent::Progress(progress) => self.tell_more(brought, progress.lost).await,
            RequestEvent::Finished(summary) => {
                self.tell_more(brought, Some(summary.lost)).await;
                return Ok(Some(Failure::new(Code::Damaged, "its provider has ended it")));
            }
            RequestEvent::Failed { error, summary } => {
                self.tell_more(brought, summary.map(|summary| summary.lost)).await;
                return Ok(Some(Failure::api(&error)));
            }
            _ => {}
        }
        Ok(None)
    }

    async fn tell_more(&self, brought: &mut StreamProgress, lost: Option<u64>) {
        let lost = lost.unwrap_or(0).max(brought.lost);
        let more = StreamUpdate::Came { bytes: brought.bytes - brought.told, lost: lost - brought.lost };
        (brought.told, brought.lost) = (brought.bytes, lost);
        self.send_update(more).await;
    }

    async fn tell_rest(&self, brought: &StreamProgress) {
        self.send_update(StreamUpdate::Came { bytes: brought.bytes - brought.told, lost: 0 }).await;
    }

    async fn send_update(&self, told: StreamUpdate) {
        // The room's command may have ended.
        let _ = self.told.send((self.key, told)).await;
    }
}

/// Waits until the sender of the member's cell is dropped.
async fn dropped(place: &mut watch::Receiver<Cell>) {
    while place.changed().await.is_ok() {}
}
