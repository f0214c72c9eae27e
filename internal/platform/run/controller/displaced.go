package controller

import "time"

// displaced stops an instance that has to leave its machine, which is no crash. The pass
// starts a replacement at once.
func (r rules) displaced(s *slot, e event) []action {
	switch s.state {
	case starting, running:
		s.wanted = ""
		return append(r.moving(*s, e.text), r.stop(s, true)...)
	case clearing, waiting:
		// It ended because of that, which was known too late: it was recorded as a crash, but
		// its replacement does not wait.
		if s.failed == crashed && r.now.Sub(s.crashedAt) < movedSoon {
			s.failed, s.details, s.crashes, s.restartAt = sound, "", max(0, s.crashes-1), time.Time{}
			if s.state == waiting && s.wanted != "" {
				return append(r.moving(*s, e.text), r.create(s)...)
			}
			return r.moving(*s, e.text)
		}
	}
	return nil
}

// movedSoon is how soon after the end of an instance its machine may turn out to be the
// reason.
const movedSoon = 10 * time.Second

// moving tells that an instance is replaced because of its machine.
func (r rules) moving(s slot, why string) []action {
	return []action{r.line(s, "Cell %s is replacing instance %s: %s", r.cell, s.id, why),
		{kind: doMove, id: s.id, version: s.version, text: why}}
}
