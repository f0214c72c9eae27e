package controller

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// exitPayload describes a crash in the app's log, in this order.
type exitPayload struct {
	Instance        string `json:"instance"`
	Index           int    `json:"index"`
	CellID          string `json:"cellid"`
	Reason          string `json:"reason"`
	ExitDescription string `json:"exitdescription"`
	CrashCount      int    `json:"crashcount"`
	CrashTimestamp  int64  `json:"crashtimestamp"` // nanoseconds
	Version         string `json:"version"`
}

const reasonCrashed = "CRASHED"

// crashLines returns the lines for the app's log about a crash.
func (p *pass) crashLines(d slotAction) []string {
	x := d.crash
	var payload bytes.Buffer
	e := json.NewEncoder(&payload)
	e.SetEscapeHTML(false)
	err := e.Encode(exitPayload{
		Instance: x.id, Index: d.at.index, CellID: p.Cell, Reason: reasonCrashed, ExitDescription: x.description,
		CrashCount: x.count, CrashTimestamp: x.at.UnixNano(), Version: x.version,
	})
	if err != nil {
		panic(err) // plain fields only
	}
	return []string{
		`Process has crashed with type: "` + p.typeOf(d.at) + `"`,
		"App instance exited with guid " + p.app.guid + " payload: " + string(bytes.TrimSpace(payload.Bytes())),
	}
}

// checksReadiness reports whether the process has its own readiness check. Without
// one, ready means the same as healthy.
func (p *pass) checksReadiness(at slotKey) bool {
	process := p.goal.processes[at.process]
	return process != nil && process.Readiness.Type != platform.CheckProcess && process.Readiness.Type != ""
}

// readyLine returns the line for the app's log when the process's own readiness check
// passes or fails.
func (p *pass) readyLine(d slotAction) string {
	switch {
	case !p.checksReadiness(d.at):
		return ""
	case d.kind == doReady:
		return "Container passed the readiness health check. Container marked ready and added to route pool."
	case d.text != "":
		return "Container failed the readiness health check. Container marked not ready and removed from route pool: " +
			d.text
	}
	return "Container failed the readiness health check. Container marked not ready and removed from route pool."
}

// audit is an event to record.
type audit struct {
	kind string
	by   actions.Actor
	data map[string]any
}

// audits returns the events for the actions of the pass.
func (p *pass) audits() []audit {
	if p.goal.app == nil {
		return nil
	}
	var all []audit
	for _, d := range p.actions {
		by := actions.Actor{GUID: d.at.process, Type: "process", Name: p.typeOf(d.at)}
		switch d.kind {
		case doCrash:
			x := d.crash
			all = append(all, audit{"audit.app.process.crash", by, map[string]any{
				"instance": x.id, "index": d.at.index, "cell_id": p.Cell, "reason": reasonCrashed,
				"exit_description": x.description,
				"crash_count":      x.count, "crash_timestamp": x.at.UnixNano(), "version": x.version,
			}})
			data := map[string]any{
				"instance": x.id, "index": d.at.index, "cell_id": p.Cell, "exit_description": x.description,
				"reason": reasonCrashed,
			}
			if x.status != 0 {
				data["exit_status"] = x.status
			}
			all = append(all, audit{"app.crash", actions.Actor{GUID: p.goal.app.GUID, Type: "app", Name: p.goal.app.Name}, data})
		case doMove:
			all = append(all, audit{"audit.app.process.rescheduling", by, map[string]any{
				"instance": d.id, "index": d.at.index, "cell_id": p.Cell, "reason": d.text, "version": d.version,
			}})
		case doSidecar:
			_, name, _ := strings.Cut(d.text, "/SIDECAR/")
			data := map[string]any{
				"instance": d.id, "index": d.at.index, "cell_id": p.Cell, "sidecar": name, "exit_status": d.crash.status,
				"version": d.crash.version,
			}
			if d.crash.description != "" {
				data["reason"] = d.crash.description
			}
			all = append(all, audit{"app.sidecar.crash", by, data})
		case doReady, doNotReady:
			if !p.checksReadiness(d.at) {
				continue
			}
			kind := "audit.app.process.ready"
			if d.kind == doNotReady {
				kind = "audit.app.process.not-ready"
			}
			all = append(all, audit{kind, by, map[string]any{
				"instance": d.id, "index": d.at.index, "cell_id": p.Cell, "version": d.version,
			}})
		}
	}
	return all
}

// record writes audit events, except for an app or space that has been deleted meanwhile.
func (p *pass) record(tx platform.Tx, audits []audit) error {
	if len(audits) == 0 {
		return nil
	}
	app, err := tx.Apps().Get(p.app.guid)
	for i := 0; i < len(audits) && err == nil; i++ {
		err = p.Platform.RecordApp(tx, audits[i].kind, audits[i].by, app, audits[i].data)
	}
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// say writes the lines of the pass to the app's log.
func (p *pass) say() {
	if p.app.gone.Load() {
		return
	}
	var lines []platform.LogLine
	add := func(source, instance, text string) {
		lines = append(lines, platform.LogLine{App: p.app.guid, Time: p.Clock.Now(), Source: source, Instance: instance,
			Text: []byte(text)})
	}
	for _, d := range p.actions {
		switch d.kind {
		case doLine:
			add("CELL", strconv.Itoa(d.at.index), d.text)
		case doCrash:
			for _, text := range p.crashLines(d) {
				add("API", "0", text)
			}
			if p.Crashed != nil {
				p.Crashed(p.app.guid, p.typeOf(d.at), d.at.index)
			}
		case doWaiting:
			add("HEALTH", strconv.Itoa(d.at.index), "Not healthy yet: "+d.text)
		case doReady, doNotReady:
			if text := p.readyLine(d); text != "" {
				add("HEALTH", strconv.Itoa(d.at.index), text)
			}
		}
	}
	if p.verdict != "" {
		add("API", "0", "Canceling the deployment: "+p.verdict)
	}
	if len(lines) == 0 {
		return
	}
	if err := p.Logs.Tell(lines...); err != nil {
		p.lost.Add(uint64(len(lines)))
		p.Log.Error("writing lines to the app's log failed", "app", p.app.guid, "lines", len(lines), "error", err)
	}
}
