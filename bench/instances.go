package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var instancesSection = Section{
	Name: "instances",
	About: "one more instance of a running app, from the call to scale to its first 200, compared with bare containers; " +
		"and the memory of an idle one",
	Run: measureInstances,
}

// initGoal is the maximum resident memory of the ingot-init of an idle instance
// (VmRSS, the largest of all instances), and instanceGoal that of an instance in the server, in MB of a million bytes.
const (
	initGoal     = 5
	instanceGoal = 0.25
)

// startsGoal is the maximum time of a start as a multiple of a bare container's.
const startsGoal = 1.5

func measureInstances(ctx context.Context, r *Report) (err error) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		r.Note("skipped: this system has no /proc")
		return nil
	}
	rounds, idle := 10, 10*time.Second
	if r.Short {
		rounds, idle = 2, 7*time.Second // ingot-init returns memory after 5 s
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	bits, err := newUpload(program, "instances")
	if err != nil {
		return err
	}
	peers, err := bareRuntimes(ctx, r, program)
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx, "--log-level", "debug")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	app, err := p.Push(ctx, "instances", bits)
	defer func() { err = errors.Join(err, p.Remove(ctx, app)) }()
	if err != nil {
		return err
	}
	before, err := p.settle(ctx, idle)
	if err != nil {
		return err
	}
	var started []time.Duration
	for i := 1; i <= rounds; i++ {
		for _, peer := range peers {
			if err := peer.round(ctx); err != nil {
				return err
			}
		}
		took, err := p.scale(ctx, app, i)
		if err != nil {
			return err
		}
		started = append(started, took)
	}
	after, err := p.settle(ctx, idle)
	if err != nil {
		return err
	}
	startFigures(r, started, peers)
	p.noteEngine(r)
	r.Note("%d rounds, taking turns. Ours is from POST …/actions/scale to the first 200 of the new instance through the "+
		"router, asked every millisecond: storing the wish, files, disk, container, network, ingot-init, health check, "+
		"route. A bare container has the same namespaces, ids, limits and program, some seccomp rules, and no network; it "+
		"is from the launch of `run` to the first line that the program writes.", rounds)
	if err := noteSteps(r, p); err != nil {
		return err
	}
	return p.memoryFigures(ctx, r, app, rounds, before, after)
}

func startFigures(r *Report, started []time.Duration, peers []*bareRuntime) {
	median, worst := medianAndWorst(started)
	ours := Figure{Name: "instance start, median", Value: median, Unit: "ms", Detail: "worst " + number(worst) + " ms"}
	if len(peers) == 0 {
		r.Add(ours)
	}
	for _, peer := range peers {
		bare, worst := medianAndWorst(peer.times)
		ours.Beside, ours.Goal = &Beside{"bare " + peer.name + " run, median", bare}, Below(startsGoal*bare)
		r.Add(ours)
		r.Add(Figure{Name: "bare " + peer.name + " run, worst", Value: worst, Unit: "ms"})
	}
}

// scale adds one instance to now instances, and waits until it responds.
func (p *Platform) scale(ctx context.Context, app *App, now int) (time.Duration, error) {
	began := time.Now()
	err := p.Do(ctx, http.MethodPost, "/v3/apps/"+app.GUID+"/processes/web/actions/scale",
		map[string]int{"instances": now + 1}, nil)
	if err == nil {
		err = p.awaitAnswer(ctx, app, strconv.Itoa(now))
	}
	return time.Since(began), err
}

// serverMemory is the memory of the server itself.
type serverMemory struct {
	memory
	heap float64 // heap in use, in MB
}

// settle waits until the server is idle and has collected its garbage.
func (p *Platform) settle(ctx context.Context, idle time.Duration) (m serverMemory, err error) {
	if err := pause(ctx, idle/2); err != nil {
		return m, err
	}
	text, err := p.heapProfile(ctx)
	if err != nil {
		return m, err
	}
	found := regexp.MustCompile(`(?m)^# HeapInuse = (\d+)$`).FindSubmatch(text)
	if found == nil {
		return m, errors.New("the heap profile has no HeapInuse")
	}
	if m.heap, err = strconv.ParseFloat(string(found[1]), 64); err != nil {
		return m, err
	}
	m.heap /= 1e6
	if err := pause(ctx, idle/2); err != nil {
		return m, err
	}
	m.memory, err = residentMemory(p.PID)
	return m, err
}

func (p *Platform) memoryFigures(ctx context.Context, r *Report, app *App, rounds int, before,
	after serverMemory) error {
	stats, err := p.stats(ctx, app)
	if err != nil {
		return err
	}
	var guids []string
	for _, one := range stats {
		guids = append(guids, one.GUID)
	}
	inits, err := findInits(guids)
	if err != nil {
		return err
	}
	if len(inits) != len(guids) {
		return fmt.Errorf("%d of %d instances have an ingot-init", len(inits), len(guids))
	}
	var rss, anonymous, pss []float64
	for _, pid := range inits {
		m, err := residentMemory(pid)
		if err != nil {
			return err
		}
		share, err := proportionalMemory(pid)
		if err != nil {
			return err
		}
		rss, anonymous, pss = append(rss, m.total), append(anonymous, m.anonymous), append(pss, share)
	}
	largest := slices.Max(rss)
	r.Add(Figure{Name: "ingot-init, VmRSS, largest", Value: largest, Unit: "MB", Beside: &Beside{"limit", initGoal},
		Goal: Below(initGoal)})
	r.Add(Figure{Name: "ingot-init, VmRSS, mean", Value: mean(rss), Unit: "MB"})
	r.Add(Figure{Name: "ingot-init, PSS, mean", Value: mean(pss), Unit: "MB", Beside: &Beside{"VmRSS, mean", mean(rss)},
		Detail: "largest " + number(slices.Max(pss)) + " MB"})
	r.Add(Figure{Name: "ingot-init, RssAnon, mean", Value: mean(anonymous), Unit: "MB",
		Beside: &Beside{"VmRSS, mean", mean(rss)}})
	n := float64(rounds)
	r.Add(Figure{Name: "server, growth of VmRSS per instance", Value: (after.total - before.total) / n, Unit: "MB",
		Goal: Below(instanceGoal), Detail: fmt.Sprintf("from %s to %s MB", number(before.total), number(after.total))})
	r.Add(Figure{Name: "server, growth of RssAnon per instance", Value: (after.anonymous - before.anonymous) / n,
		Unit: "MB", Detail: fmt.Sprintf("from %s to %s MB", number(before.anonymous), number(after.anonymous))})
	r.Add(Figure{Name: "server, growth of heap in use per instance", Value: (after.heap - before.heap) / n, Unit: "MB",
		Detail: fmt.Sprintf("from %s to %s MB", number(before.heap), number(after.heap))})
	r.Add(Figure{Name: "our part of an instance, PSS of init and growth of VmRSS", Value: mean(pss) +
		(after.total-before.total)/n, Unit: "MB"})
	r.Note("memory of %d idle instances, each of which ran at least some seconds. VmRSS counts the pages of the program "+
		"in full for every instance, although all share one copy; PSS divides them. The app itself and what the kernel "+
		"keeps (namespaces, control groups, a loop device) are not in it. The server's growth is that from 1 to %d "+
		"instances, after a garbage collection both times.", len(inits), len(inits))
	if largest < initGoal {
		return nil
	}
	r.Note("the mappings of an ingot-init: %s", mappings(inits[0]))
	return nil
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// findInits returns the first processes of instances. They are not children of
// the server, and other servers have some too; their control group or their
// arguments identify the instance.
func findInits(instances []string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process that has just exited has neither.
		args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		groups, _ := os.ReadFile("/proc/" + e.Name() + "/cgroup")
		name, _, _ := strings.Cut(string(args), "\x00")
		if !strings.HasSuffix(name, "ingot-init") {
			continue
		}
		if slices.ContainsFunc(instances, func(guid string) bool {
			return guid != "" && strings.Contains(string(args)+string(groups), guid)
		}) {
			found = append(found, pid)
		}
	}
	return found, nil
}
