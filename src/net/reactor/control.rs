//! What a consumer of version 1.1 is told between frames.
//!
//! A cursor moves bytes, not frames. It is known to stand between two frames where it begins, where it has all there is
//! or all of a segment, and where it meets damage or was moved past it; control frames are sent there and nowhere else.

use std::time::Instant;

use super::context::Context;
use super::session::{Ending, Role, Session, Verdict};
use crate::metrics::CloseReason;
use crate::protocol::Status;
use crate::protocol::v1_1::ControlFrame;

impl Session {
    /// Begins to consume, behind the reply.
    pub(super) fn begin_consuming(&mut self, cx: &mut Context) -> Verdict {
        let Role::Consumer { reading, .. } = &mut self.role else { return Verdict::Again };
        let (moved, heartbeat) = (reading.moved.take(), reading.heartbeat);
        if let Some(every) = heartbeat {
            self.schedule_beat(Instant::now() + every, cx);
        }
        if let Some((offset, message)) = moved {
            let control = ControlFrame::new(Status::OffsetOutOfRange, offset, message);
            if let Err(verdict) = self.tell(&control, cx) {
                return verdict;
            }
        }
        Verdict::Again
    }

    /// Sends a control frame. The caller knows that the consumer has got whole frames.
    pub(super) fn tell(&mut self, control: &ControlFrame, cx: &Context) -> Result<(), Verdict> {
        let mut bytes = Vec::new();
        control.write(&mut bytes);
        cx.metrics.control_frames.inc();
        self.sent_at = cx.now;
        self.answer(&bytes)
    }

    /// The consumer's time has come: a heartbeat, if nothing was sent since the last one and nothing is under way.
    pub(super) fn beat(&mut self, cx: &mut Context) -> Result<(), Verdict> {
        self.beat_at = None;
        let Role::Consumer { cursor, reading, .. } = &self.role else { return Ok(()) };
        let Some(every) = reading.heartbeat else { return Ok(()) };
        let due = self.sent_at + every;
        if due > cx.now {
            self.schedule_beat(due, cx);
            return Ok(());
        }
        let idle = self.closing.is_none() && !self.is_sending() && self.writable;
        let tail = cursor.tail_offset().filter(|_| idle);
        self.schedule_beat(cx.now + every, cx);
        match tail {
            Some(offset) => self.tell(&ControlFrame::heartbeat(offset), cx),
            None => Ok(()),
        }
    }

    fn schedule_beat(&mut self, at: Instant, cx: &mut Context) {
        cx.heartbeats.insert((at, self.key.0));
        self.beat_at = Some(at);
    }

    /// The consumer stands at damage and is not to go past it: it is told so, if it has got whole frames, and ends.
    pub(super) fn end_at_damage(&mut self, cx: &Context) -> Verdict {
        let Role::Consumer { cursor, .. } = &self.role else { return Verdict::Close(None) };
        let reason = Some(CloseReason::Corrupt);
        let Some(offset) = cursor.damage_offset().filter(|_| self.connection.speaks_1_1()) else {
            return Verdict::Close(reason);
        };
        self.end_with(Status::Corrupt, offset, "the records that come next are damaged", cx);
        self.closing = Some(Ending(reason));
        Verdict::Again
    }

    /// The topic was deleted: the consumer is told so, and ends. It has got whole frames.
    pub(super) fn end_deleted(&mut self, cx: &Context) -> Verdict {
        let reason = Some(CloseReason::TopicDeleted);
        let Role::Consumer { cursor, .. } = &self.role else { return Verdict::Close(None) };
        let Some(offset) = cursor.tail_offset().filter(|_| self.connection.speaks_1_1()) else {
            return Verdict::Close(reason);
        };
        self.end_with(Status::TopicDeleted, offset, "the topic was deleted", cx);
        self.closing = Some(Ending(reason));
        Verdict::Again
    }

    /// The broker goes down: a consumer that has all there is is told so. What others are sent is cut off as it is.
    pub(super) fn say_goodbye(&mut self, cx: &mut Context) {
        let tail = match &self.role {
            Role::Consumer { cursor, .. } if self.connection.speaks_1_1() => cursor.tail_offset(),
            _ => None,
        };
        let Some(offset) = tail.filter(|_| self.closing.is_none() && !self.is_sending()) else {
            return;
        };
        // Its last commits, and nothing left unread that would take the frame back.
        self.readable = true;
        if self.take_input(cx).is_ok() && !self.ended {
            self.end_with(Status::ShuttingDown, offset, "the broker is going down", cx);
        }
    }

    pub(super) fn end_with(&mut self, status: Status, offset: u64, message: &str, cx: &Context) {
        self.farewell.clear();
        ControlFrame::new(status, offset, message).write(&mut self.farewell);
        cx.metrics.control_frames.inc();
    }
}
