package apps

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

type topFlags struct {
	Once     bool `long:"once" description:"Show one table and exit"`
	Interval int  `long:"interval" value-name:"SECONDS" default:"2" description:"Seconds between updates"`
}

// topList is what instances use, the busiest first.
type topList struct {
	Instances []topInstance `json:"instances"`

	now time.Time
}

type topInstance struct {
	App     string         `json:"app"`
	Process string         `json:"process"`
	Index   int            `json:"index"`
	State   string         `json:"state"`
	CPU     float64        `json:"cpu"`
	Memory  int64          `json:"memory"`
	MemMax  int64          `json:"memory_quota"`
	Members []cfapi.Member `json:"members"`
}

func (l *topList) Show(p *term.Printer) {
	if len(l.Instances) == 0 {
		p.Println("No instances found.")
		return
	}
	t := term.Table{Heading: []string{"instance", "state", "cpu", "memory", "restarts", "last exit"}}
	for _, i := range l.Instances {
		t.Rows = append(t.Rows, []term.Cell{
			{Text: fmt.Sprintf("%s %s/%d", i.App, i.Process, i.Index), Paint: p.Bold}, {Text: i.State, Paint: p.State},
			{Text: percent(i.CPU)},
			{Text: term.Size(i.Memory) + " of " + term.Size(i.MemMax)},
		})
		t.Rows = append(t.Rows, memberRows(p, i.Members, l.now)...)
	}
	p.Table(t)
}

func percent(cpu float64) string { return fmt.Sprintf("%.1f%%", cpu*100) }

// memberRows returns the rows of an instance's members, below its own. A main process alone
// is the instance.
func memberRows(p *term.Printer, members []cfapi.Member, now time.Time) (rows [][]term.Cell) {
	if len(members) < 2 {
		return nil
	}
	for _, m := range members {
		memory := term.Size(m.Mem)
		if m.MemQuota != nil {
			memory += " of " + term.Size(*m.MemQuota)
		}
		rows = append(rows, []term.Cell{
			{Text: indent + m.Name}, {Text: strings.ToLower(m.State), Paint: p.State}, {Text: percent(m.CPU)}, {Text: memory},
			{Text: strconv.Itoa(m.Restarts)}, {Text: exitText(m.LastExit, now)},
		})
	}
	return rows
}

func showTop(ctx context.Context, s *core.Session, w core.Words, f *topFlags) (core.Result, error) {
	if f.Interval < 1 {
		return nil, &core.Problem{What: fmt.Sprintf("--interval %d is not possible.", f.Interval),
			Why: "it is a number of seconds, at least 1", Try: "--interval 2"}
	}
	list, err := look(ctx, s, w["APP"])
	if err != nil || f.Once || s.JSON || !s.Env.OutTerminal || !s.Env.Draws() {
		return core.OrNil(list, err)
	}
	for ctx.Err() == nil {
		redraw(s, list, f.Interval)
		select {
		case <-time.After(time.Duration(f.Interval) * time.Second):
		case <-ctx.Done():
			return nil, nil
		}
		if list, err = look(ctx, s, w["APP"]); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	return nil, nil
}

// clearScreen moves the cursor to the top left corner and clears what follows.
const clearScreen = "\x1b[H\x1b[2J"

// redraw shows a list in place of the last one, with one write so that it does not flicker.
func redraw(s *core.Session, list *topList, interval int) {
	var page bytes.Buffer
	p := term.NewPrinter(&page, s.Env.Colors())
	p.Println(p.Dim(fmt.Sprintf("%s, every %ds; press Ctrl-C to quit", list.now.Local().Format(time.TimeOnly), interval)))
	p.Println("")
	list.Show(p)
	_, _ = s.Env.Out.Write(append([]byte(clearScreen), page.Bytes()...)) // a terminal that is gone ends the program
}

// look asks for the usage of the named app's instances, or of all apps in the space.
func look(ctx context.Context, s *core.Session, name string) (*topList, error) {
	apps := map[string]string{}
	q := s.InSpace("per_page", "5000")
	if name != "" {
		app, err := s.App(ctx, name)
		if err != nil {
			return nil, err
		}
		apps[app.GUID] = app.Name
		q.Set("app_guids", app.GUID)
	} else {
		all, err := client.List[cfapi.App](ctx, s.API, "/v3/apps", s.InSpace("per_page", "5000"))
		if err != nil {
			return nil, err
		}
		maps.Copy(apps, cfapi.Names(all))
	}
	processes, err := client.List[cfapi.Process](ctx, s.API, "/v3/processes", q)
	if err != nil {
		return nil, err
	}
	processes = slices.DeleteFunc(processes, func(pr cfapi.Process) bool { return pr.Instances == 0 })
	stats := make([][]cfapi.Stat, len(processes))
	for first := 0; first < len(processes); first += topAtOnce {
		var work []func() error
		for i := first; i < min(first+topAtOnce, len(processes)); i++ {
			work = append(work, func() (err error) {
				stats[i], err = InstanceStats(ctx, s, processes[i].GUID)
				if client.Status(err) == 404 {
					return nil // deleted meanwhile
				}
				return err
			})
		}
		if err := core.Concurrently(work...); err != nil {
			return nil, err
		}
	}
	list := &topList{Instances: []topInstance{}, now: s.Env.Now()}
	for i, pr := range processes {
		for _, st := range stats[i] {
			list.Instances = append(list.Instances, topInstance{
				App: apps[pr.Relationships.App.GUID()], Process: pr.Type, Index: st.Index, State: strings.ToLower(st.State),
				CPU:    st.Usage.CPU,
				Memory: st.Usage.Mem, MemMax: st.MemQuota, Members: byCPU(st.Members),
			})
		}
	}
	slices.SortStableFunc(list.Instances, func(a, b topInstance) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(a.App, b.App), cmp.Compare(a.Process, b.Process),
			cmp.Compare(a.Index, b.Index))
	})
	return list, nil
}

// topAtOnce is the number of concurrent requests.
const topAtOnce = 10

// byCPU returns members, the busiest first.
func byCPU(members []cfapi.Member) []cfapi.Member {
	sorted := append([]cfapi.Member{}, members...)
	slices.SortStableFunc(sorted, func(a, b cfapi.Member) int { return cmp.Compare(b.CPU, a.CPU) })
	return sorted
}

func topCommands() []*core.Command {
	return core.InGroup(core.GroupInspect,
		core.Entry("top", "[APP] [--once] [--interval SECONDS]", "Show the processor and memory usage of instances",
			core.NeedsSpace, showTop, "", "my-app", "my-app --once").
			Explained("Shows the instances of an app, or of all apps in the target space, with their sidecars, the busiest "+
				"first. On a terminal it is updated until you press Ctrl-C."),
	)
}
