package apps

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/term"
)

// sidecarText returns the name of a sidecar and the limits that are enforced.
func sidecarText(sc cfapi.Sidecar) string {
	text, sep := "", " ("
	if sc.Options.MemoryEnforced {
		text, sep = fmt.Sprintf("%s%dM enforced", sep, sc.MemoryMB), ", "
	}
	if sc.Options.CPUWeight > 0 {
		text += fmt.Sprintf("%scpu weight %d", sep, sc.Options.CPUWeight)
	}
	if text != "" {
		text += ")"
	}
	return sc.Name + text
}

// showMembers shows what the members of each instance use, if there are sidecars.
func (pr *processSummary) showMembers(p *term.Printer) {
	t := term.Table{Heading: []string{"", "member", "state", "cpu", "memory", "restarts", "last exit"}}
	for _, i := range pr.Instances {
		for _, row := range memberRows(p, i.Members, pr.now) {
			t.Rows = append(t.Rows, append([]term.Cell{{Text: "#" + strconv.Itoa(i.Index)}}, row...))
		}
	}
	if len(t.Rows) == 0 {
		return
	}
	for i := range t.Rows {
		t.Rows[i][1].Text = t.Rows[i][1].Text[len(indent):]
	}
	p.Println("")
	p.Table(t)
}

// indent is before the name of a member, below its instance.
const indent = "  "

// exitText says how a member ended the last time, and how long ago.
func exitText(x *cfapi.MemberExit, now time.Time) string {
	if x == nil {
		return ""
	}
	text := x.Reason
	if !strings.Contains(text, "status") {
		text += fmt.Sprintf(" (status %d)", x.Status)
	}
	return fmt.Sprintf("%s, %s ago", text, max(0, now.Sub(x.Time)).Round(time.Second))
}
