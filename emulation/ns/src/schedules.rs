//! Groups, sequences and timelines of events.

use roost_topology::model::MAX_EVENTS;

use super::methods::arity;
use super::state::{NsObjectId, NsObjectKind};
use super::tcl::completion::{TclCompletion, TclResult};
use super::tcl::interp::TclInterpreter;
use super::tcl::short;
use super::tcl::value::TclValue;

impl TclInterpreter {
    pub(crate) fn event_group(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 0, 1, "$ns event-group ?objects?")?;
        let name = self.add_new("EventGroup", NsObjectKind::Group(Vec::new()))?;
        if let Some(objects) = arguments.first() {
            let id = self.object_named(&name)?;
            let objects = self.list(objects)?.to_vec();
            self.add_members(id, &objects)?;
        }
        Ok(name)
    }

    pub(crate) fn group_method(&mut self, id: NsObjectId, method: &str, arguments: &[TclValue]) -> TclResult {
        match method {
            "add" => self.add_members(id, arguments),
            "members" => {
                let NsObjectKind::Group(members) = &self.world.object(id).kind else { return Ok(TclValue::default()) };
                Ok(TclValue::from_list(members.iter().map(|member| TclValue::from(self.world.name(*member))).collect()))
            }
            other => Ok(self.unknown_method(id, other)),
        }
    }

    fn add_members(&mut self, group: NsObjectId, words: &[TclValue]) -> TclResult {
        let kind_of = |interp: &Self, id: NsObjectId| match &interp.world.object(id).kind {
            NsObjectKind::Net(_) => "LanLink".to_owned(),
            _ => interp.world.object(id).class().to_owned(),
        };
        for word in words {
            self.spend(1)?;
            let id = self.object_named(word)?;
            let kind = kind_of(self, id);
            let NsObjectKind::Group(members) = &self.world.object(group).kind else { return Ok(TclValue::default()) };
            let count = members.len();
            if members.contains(&id) {
                continue;
            }
            if members.first().is_some_and(|first| kind_of(self, *first) != kind) {
                return Err(TclCompletion::refuse(format!(
                    "\"{}\" does not fit into the group: all members must be of one kind",
                    short(word.as_str())
                )));
            }
            self.spend(count / 16)?;
            if let NsObjectKind::Group(members) = &mut self.world.object_mut(group).kind {
                members.push(id);
            }
        }
        Ok(TclValue::default())
    }

    /// `$ns event-sequence {lines} ?catch {lines}?`: each line happens when the program of the line before has
    /// ended.
    pub(crate) fn event_sequence(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 0, 3, "$ns event-sequence ?lines?")?;
        let empty = TclValue::default();
        let lines = arguments.first().unwrap_or(&empty);
        if arguments.get(1).is_none_or(TclValue::is_empty) {
            let mut events = Vec::new();
            for line in lines.as_str().split('\n') {
                events.push(self.event_line(line)?);
            }
            return self.add_sequence(&events);
        }
        // Both lists are plain events here, and both happen.
        let main = self.substituted_list(lines)?;
        let main = self.add_sequence(&main)?;
        let rescue = self.substituted_list(arguments.get(2).unwrap_or(&empty))?;
        let rescue = self.add_sequence(&rescue)?;
        self.warn("the second part of this sequence happens only after an error in Emulab; here it never does");
        let runs = [&main, &rescue].map(|part| TclValue::from(format!("{} run", part.as_str())));
        let whole = self.add_sequence(&runs)?;
        let id = self.object_named(&whole)?;
        if let NsObjectKind::Sequence(events) = &mut self.world.object_mut(id).kind
            && let Some(rescue) = events.last_mut()
        {
            rescue.effects.clear();
        }
        Ok(whole)
    }

    /// Substitutes variables and brackets in a line of a sequence; returns it as a list.
    fn event_line(&mut self, line: &str) -> TclResult {
        self.eval(&TclValue::from(["list ", line].concat()))
    }

    fn substituted_list(&mut self, text: &TclValue) -> Result<Vec<TclValue>, TclCompletion> {
        let text = self.invoke(&[TclValue::from("subst"), text.clone()])?;
        Ok(self.list(&text)?.to_vec())
    }

    fn add_sequence(&mut self, lines: &[TclValue]) -> TclResult {
        let name = format!("tbseq-seq{}", self.world.next_made());
        let mut events = Vec::new();
        for line in lines {
            if !self.list(line)?.is_empty() {
                events.extend(self.make_event(line)?);
            }
        }
        let id = self.world.add(name.clone(), self.line, NsObjectKind::Sequence(events))?;
        self.world.expect_name(id);
        Ok(TclValue::from(name))
    }

    pub(crate) fn sequence_method(&mut self, id: NsObjectId, method: &str, arguments: &[TclValue]) -> TclResult {
        match method {
            "append" => {
                arity(arguments, 1, 1, "$sequence append \"object event\"")?;
                let made = self.make_event(&arguments[0])?;
                if let NsObjectKind::Sequence(events) = &mut self.world.object_mut(id).kind {
                    events.extend(made);
                    if events.len() > MAX_EVENTS {
                        return Err(TclCompletion::refuse(format!("there are more than {MAX_EVENTS} events")));
                    }
                }
                Ok(TclValue::default())
            }
            other => self.no_such_method(id, other, "append"),
        }
    }

    pub(crate) fn event_timeline(&mut self) -> TclResult {
        let name = format!("tbtl-tl{}", self.world.next_made());
        let id = self.world.add(name.clone(), self.line, NsObjectKind::Timeline(Vec::new()))?;
        self.world.expect_name(id);
        Ok(TclValue::from(name))
    }

    pub(crate) fn timeline_method(&mut self, id: NsObjectId, method: &str, arguments: &[TclValue]) -> TclResult {
        if method != "at" {
            return self.no_such_method(id, method, "at");
        }
        arity(arguments, 2, 2, "$timeline at time \"object event\"")?;
        let time = self.read_time(arguments[0].as_str())?;
        let made = self.make_events(arguments[1].as_str())?;
        if let NsObjectKind::Timeline(events) = &mut self.world.object_mut(id).kind {
            events.extend(made.into_iter().map(|made| (time, made)));
            if events.len() > MAX_EVENTS {
                return Err(TclCompletion::refuse(format!("there are more than {MAX_EVENTS} events")));
            }
        }
        Ok(TclValue::default())
    }

    fn no_such_method(&self, id: NsObjectId, method: &str, has: &str) -> TclResult {
        let object = self.world.object(id);
        Err(TclCompletion::refuse(format!(
            "\"{}\" is nothing that \"{}\" can do: an {} has only \"{has}\"",
            short(method),
            object.name,
            object.class()
        )))
    }
}
