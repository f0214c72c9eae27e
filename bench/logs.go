package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/logs/logfiles"
)

var logsSection = Section{
	Name: "logs",
	About: "lines of ten apps at once, from the app's write to the client's screen over the live tail; and the bounds " +
		"of the store with a thousand noisy apps",
	Run: measureLogs,
}

const (
	logApps    = 10
	logRate    = 50000 // lines a second, of all apps together
	screenGoal = 40    // ms from the write to the reader, 99th percentile
	storeApps  = 1000
	storeDisk  = 256 << 20
	storeGoal  = 64 // MB of heap for a thousand noisy apps
)

func measureLogs(ctx context.Context, r *Report) error {
	if err := measureStore(ctx, r); err != nil {
		return err
	}
	return measureScreen(ctx, r)
}

// measureScreen lets apps print, and reads their live tails.
func measureScreen(ctx context.Context, r *Report) (err error) {
	seconds := 30
	if r.Short {
		seconds = 3
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	var apps []*App
	defer func() { err = errors.Join(err, p.removeAll(ctx, apps)) }()
	for n := range logApps {
		bits, err := newUpload(program, "logs")
		if err != nil {
			return err
		}
		app, err := p.Push(ctx, "logs-"+strconv.Itoa(n), bits)
		if app != nil {
			apps = append(apps, app)
		}
		if err != nil {
			return err
		}
	}
	lines := logRate / logApps * seconds
	screens, took, late, err := p.screens(ctx, apps, lines)
	if err != nil {
		return err
	}
	slow, err := screenFigures(ctx, r, p, apps, screens, lines, took, late)
	if err != nil {
		return err
	}
	if slow || r.ProfileDir != "" {
		err := r.hotSpots(ctx, p.Server, "logs", 3, func() error {
			_, _, _, err := p.screens(ctx, apps, logRate/logApps*3)
			return err
		})
		if err != nil {
			return err
		}
	}
	return measureLogClient(ctx, r, p, apps)
}

// screens has every app print the given number of lines while one reader each
// reads them. late are the delays of timers in that time.
func (p *Platform) screens(ctx context.Context, apps []*App, lines int) (screens []*screen, took time.Duration,
	late []time.Duration, err error) {
	var reading sync.WaitGroup
	for _, app := range apps {
		s, err := p.watch(ctx, app, lines)
		if err != nil {
			return nil, 0, nil, err
		}
		screens = append(screens, s)
		reading.Go(func() { s.failure = s.read() })
	}
	began := time.Now()
	idle := watchTimer()
	for _, app := range apps {
		if err := p.print(ctx, app, logRate/logApps, lines); err != nil {
			return nil, 0, nil, err
		}
	}
	reading.Wait()
	return screens, time.Since(began), idle(), nil
}

// print makes an app start printing.
func (p *Platform) print(ctx context.Context, app *App, rate, lines int) error {
	request := get(app.Host, fmt.Sprintf("/print?rate=%d&lines=%d", rate, lines))
	return Load{Addr: p.API, Requests: [][]byte{request}, Connections: 1}.Exactly(ctx)
}

// watchTimer measures how late a 1 ms timer fires on this machine: the time that
// every process waits for a processor. The returned function stops it.
func watchTimer() (end func() []time.Duration) {
	stop, done := make(chan struct{}), make(chan []time.Duration)
	go func() {
		var late []time.Duration
		for {
			began := time.Now()
			select {
			case <-stop:
				slices.Sort(late)
				done <- late
				return
			case <-time.After(time.Millisecond):
				late = append(late, time.Since(began)-time.Millisecond)
			}
		}
	}()
	return func() []time.Duration {
		close(stop)
		return <-done
	}
}

// screenFigures adds the figures; slow reports whether lines are late.
func screenFigures(
	ctx context.Context, r *Report, p *Platform, apps []*App, screens []*screen, lines int, took time.Duration,
	late []time.Duration,
) (slow bool, err error) {
	var delays []time.Duration
	missing, disorder := 0, 0
	for _, s := range screens {
		if s.failure != nil {
			return false, s.failure
		}
		delays = append(delays, s.delays...)
		missing += lines - s.lines
		disorder += s.disorder
	}
	slices.Sort(delays)
	wrong := 0
	for _, app := range apps {
		recent, err := p.recentRight(ctx, app, lines)
		if err != nil {
			return false, err
		}
		if !recent {
			wrong++
		}
	}
	r.Add(Figure{
		Name: "lines on screens", Value: float64(len(delays)) / took.Seconds(), Unit: "lines/s",
		Beside: &Beside{"written by the apps, as asked", logRate}, Goal: ShareOf(0.95),
	})
	r.Add(Figure{Name: "lines lost", Value: float64(missing), Unit: "lines", Goal: Below(1),
		Detail: fmt.Sprintf("of %d", lines*len(apps))})
	r.Add(Figure{Name: "lines out of order within a process", Value: float64(disorder), Unit: "lines", Goal: Below(1)})
	r.Add(Figure{Name: "apps whose recent lines are wrong", Value: float64(wrong), Unit: "apps", Goal: Below(1)})
	r.Add(Figure{
		Name: "from write to screen, p99", Value: millis(percentile(delays, 0.99)), Unit: "ms", Goal: Below(screenGoal),
		Beside: &Beside{"a bare timer is late, p99", millis(percentile(late, 0.99))},
		Detail: fmt.Sprintf("median %s ms, worst %s ms", number(millis(percentile(delays, 0.5))),
			number(millis(percentile(delays, 1)))),
	})
	p.noteEngine(r)
	r.Note("%d apps print %d lines a second together for %d s; each has one reader of GET /api/v1/tail. Apps, server "+
		"and readers share this machine; a line passes four processes, each of which waits for a processor as "+
		"the timer does.", len(apps), logRate, lines/(logRate/logApps))
	return percentile(delays, 0.99) > screenGoal*time.Millisecond, nil
}

// removeAll deletes apps, and waits until nothing runs.
func (p *Platform) removeAll(ctx context.Context, apps []*App) error {
	ctx = context.WithoutCancel(ctx)
	for i, app := range apps {
		if i == len(apps)-1 {
			return p.Remove(ctx, app)
		}
		if _, err := p.send(ctx, http.MethodDelete, "/v3/apps/"+app.GUID, "application/json", nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// screen is a reader of an app's log.
type screen struct {
	in       io.ReadCloser
	text     func(line []byte) ([]byte, error) // extracts the app's text from a line
	want     int                               // number of lines
	lines    int
	next     int
	disorder int
	delays   []time.Duration
	failure  error
}

func (p *Platform) watch(ctx context.Context, app *App, lines int) (*screen, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.API+"/api/v1/tail/"+app.GUID+
		"?source_types=APP", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "bearer "+p.token)
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request) // without a timeout
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, fmt.Errorf("the live tail answers %s", answer.Status)
	}
	var text []byte
	return &screen{in: answer.Body, want: lines, delays: make([]time.Duration, 0, lines),
		text: func(line []byte) ([]byte, error) {
			_, payload, _ := bytes.Cut(line, []byte(`"payload":"`))
			payload, _, _ = bytes.Cut(payload, []byte(`"`))
			var err error
			text, err = base64.StdEncoding.AppendDecode(text[:0], payload)
			return text, err
		}}, nil
}

// screenPatience is how long a line may take before it counts as lost.
const screenPatience = 20 * time.Second

// read reads until the last line arrived, or no more lines do.
func (s *screen) read() error {
	defer s.in.Close()
	late := time.AfterFunc(screenPatience, func() { s.in.Close() })
	defer late.Stop()
	in := bufio.NewReaderSize(s.in, 64<<10)
	for s.next < s.want {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return nil //nolint:nilerr // missing lines are part of the result
		}
		n, at, err := s.parse(line)
		if err != nil {
			return err
		}
		if n < 0 {
			continue
		}
		s.delays = append(s.delays, time.Since(at))
		s.lines++
		if n < s.next {
			s.disorder++
		}
		s.next = n + 1
		late.Reset(screenPatience)
	}
	return nil
}

// parse returns the number and time of a line that the app printed; the number is
// negative for other lines.
func (s *screen) parse(line []byte) (n int, at time.Time, err error) {
	text, err := s.text(line)
	if err != nil {
		return 0, at, err
	}
	fields := bytes.Fields(text)
	if len(fields) < 3 || string(fields[0]) != "bench" {
		return -1, at, nil
	}
	if n, err = strconv.Atoi(string(fields[1])); err != nil {
		return 0, at, err
	}
	nanos, err := strconv.ParseInt(string(fields[2]), 10, 64)
	return n, time.Unix(0, nanos), err
}

// recentRight reports whether cf logs --recent would show the last lines.
func (p *Platform) recentRight(ctx context.Context, app *App, lines int) (bool, error) {
	var answer struct {
		Envelopes struct {
			Batch []struct {
				Log struct {
					Payload []byte `json:"payload"`
				} `json:"log"`
			} `json:"batch"`
		} `json:"envelopes"`
	}
	err := p.Do(ctx, http.MethodGet, "/api/v1/read/"+app.GUID+"?descending=true&limit=1000&envelope_types=LOG",
		nil, &answer)
	if err != nil {
		return false, err
	}
	n := lines - 1
	for _, e := range answer.Envelopes.Batch {
		if !bytes.HasPrefix(e.Log.Payload, []byte("bench ")) {
			continue // from the router
		}
		if !bytes.HasPrefix(e.Log.Payload, fmt.Appendf(nil, "bench %d ", n)) {
			return false, nil
		}
		n--
	}
	return n < lines-1, nil
}

// measureStore lets a thousand apps write as fast as the store accepts lines, far
// more than it may keep.
func measureStore(ctx context.Context, r *Report) error {
	rounds := 100
	if r.Short {
		rounds = 10
	}
	dir := filepath.Join(r.Scratch, "log-store")
	s, err := logfiles.Open(dir, logfiles.Options{TotalBytes: storeDisk})
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer s.Stop()
	before := heapInUse()
	most := int64(0)
	began := time.Now()
	line := []byte("a line of some length, as logs have them, with words and numbers 1234567890")
	batch := make([]platform.LogLine, 100)
	written := 0
	for round := range rounds {
		for n := range storeApps {
			app := "app-" + strconv.Itoa(n)
			for i := range batch {
				batch[i] = platform.LogLine{App: app, Time: time.Now(), Source: "APP/PROC/WEB", Instance: "0", Text: line,
					Stream: app, Seq: uint64(round*len(batch) + i + 1)}
			}
			if err := s.Append(batch...); err != nil {
				return err
			}
			written += len(batch)
		}
		most = max(most, s.Totals().Bytes)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	took := time.Since(began)
	heap := float64(int64(heapInUse())-int64(before)) / 1e6
	onDisk, err := sizeOf(dir)
	if err != nil {
		return err
	}
	r.Add(Figure{Name: "store, lines of 1,000 noisy apps", Value: float64(written) / took.Seconds(), Unit: "lines/s",
		Beside: &Beside{"goal of all apps", logRate}, Goal: ShareOf(1)})
	r.Add(Figure{Name: "store, heap with 1,000 noisy apps", Value: max(0, heap), Unit: "MB", Goal: Below(storeGoal)})
	r.Add(Figure{
		Name: "store, disk with 1,000 noisy apps", Value: float64(max(most, onDisk)) / 1e6, Unit: "MB",
		Goal:   Below(float64(storeDisk) / 1e6),
		Detail: fmt.Sprintf("the most of %d looks; %s MB were written", rounds, number(float64(written*len(line))/1e6)),
	})
	runtime.KeepAlive(s)
	return nil
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}
