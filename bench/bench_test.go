package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestGoals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		f    Figure
		want string
	}{
		"information":      {Figure{Value: 1}, resultInfo},
		"below":            {Figure{Value: 59.9, Goal: Below(60)}, resultPass},
		"not below":        {Figure{Value: 60, Goal: Below(60)}, resultFail},
		"share":            {Figure{Value: 60, Beside: &Beside{"peer", 100}, Goal: ShareOf(0.6)}, resultPass},
		"too small":        {Figure{Value: 59, Beside: &Beside{"peer", 100}, Goal: ShareOf(0.6)}, resultFail},
		"share of nothing": {Figure{Value: 59, Beside: &Beside{"peer", 0}, Goal: ShareOf(0.6)}, resultFail},
		"no peer":          {Figure{Value: 59, Goal: ShareOf(0.6)}, resultFail},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.f.judge(); got != test.want {
				t.Errorf("judged %s, want %s", got, test.want)
			}
		})
	}
}

// The report shows missed goals, in the output and in the file.
func TestReport(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := &Report{out: &out}
	r.begin("ingot test")
	r.enter(Section{Name: "one", About: "things"})
	r.Add(Figure{Name: "good", Value: 5, Unit: "ms", Goal: Below(10)})
	r.Add(Figure{Name: "bad", Value: 10, Unit: "/s", Beside: &Beside{"peer", 100}, Goal: ShareOf(0.5)})
	r.leave(nil)
	r.enter(Section{Name: "two"})
	r.leave(errors.New("it broke"))
	if err := r.finish(); err == nil {
		t.Error("a missed goal was not reported")
	}
	for _, want := range []string{"PASS", "FAIL", "ERROR: it broke", "10.0 % of peer",
		"1 goals reached, 1 missed, 1 sections could not be measured"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
	file := filepath.Join(t.TempDir(), "figures.json")
	if err := r.writeJSON(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil || doc.Sections[0].Figures[1].Result != resultFail ||
		doc.Sections[1].Error != "it broke" {
		t.Errorf("%v in %s", err, text)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-run", "("}, {"-run", "nothing like it"}, {"-unknown"}, {"word"},
		{"-database", "oracle"}} {
		if code := run(t.Context(), args, io.Discard, io.Discard); code != exitUsage {
			t.Errorf("%q: left with %d", args, code)
		}
	}
}

// An interrupted section prints what it measured so far; later sections do not
// start.
func TestInterrupted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ingot") // it is only called for its version
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho ingot\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("INGOT_BIN", program)
	ctx, cancel := context.WithCancel(t.Context())
	sections := []Section{
		{Name: "first", Run: func(ctx context.Context, r *Report) error {
			r.Add(Figure{Name: "early", Value: 12345, Unit: "/s"})
			cancel()
			return ctx.Err()
		}},
		{Name: "second", Run: func(context.Context, *Report) error {
			t.Error("the second section began")
			return nil
		}},
	}
	var out bytes.Buffer
	err := measure(ctx, sections, &Report{out: &out}, "")
	if !errors.Is(err, errInterrupted) || !strings.Contains(out.String(), "12345") ||
		!strings.Contains(out.String(), "ERROR: interrupted") {
		t.Errorf("error is %v, want %v; report without 12345 or the error:\n%s", err, errInterrupted, &out)
	}
}

func TestReadAnswer(t *testing.T) {
	t.Parallel()
	const next = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
	for name, first := range map[string]string{
		"length": "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n\r\nhello",
		"chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
		"lower case":  "HTTP/1.1 200 OK\r\ncontent-length:   2\r\n\r\nok",
		"no reason":   "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
		"long answer": "HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + strings.Repeat("x", 50000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := bufio.NewReader(strings.NewReader(first + next))
			if status, err := readAnswer(r); err != nil || status != http.StatusOK {
				t.Fatalf("first status is %d, %v, want %d", status, err, http.StatusOK)
			}
			// The next response starts in the right position.
			if status, err := readAnswer(r); err != nil || status != http.StatusNotFound {
				t.Fatalf("second status is %d, %v, want %d", status, err, http.StatusNotFound)
			}
		})
	}
	for name, text := range map[string]string{
		"other":     "SSH-2.0-x\r\n\r\n",
		"cut":       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
		"no length": "HTTP/1.1 200 OK\r\n\r\n",
		"negative":  "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"bad chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status, err := readAnswer(bufio.NewReader(strings.NewReader(text))); err == nil {
				t.Errorf("taken as %d", status)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("limited") != "" {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), 3000)) // long enough for chunks
	}))
	defer s.Close()
	addr := strings.TrimPrefix(s.URL, "http://")
	l := Load{Addr: addr, Requests: [][]byte{get(addr, "/"), post(addr, "/", "a=b", "X: y")}, Connections: 3,
		Duration: 50 * time.Millisecond}
	got, err := l.Run(t.Context())
	if err != nil || got.PerSecond <= 0 || len(got.Latencies) == 0 {
		t.Errorf("%v requests a second, %d latencies, %v", got.PerSecond, len(got.Latencies), err)
	}
	if err := l.Exactly(t.Context()); err != nil {
		t.Error(err)
	}
	l.Requests = append(l.Requests, post(addr, "/", "limited=yes"))
	if _, err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "times 429") {
		t.Errorf("a response other than 200 was not reported: %v", err)
	}
	if err := l.Exactly(t.Context()); err == nil {
		t.Error("a response other than 200 was not reported")
	}
}

func TestBestOf(t *testing.T) {
	t.Parallel()
	var order []string
	contender := func(name string, rates ...float64) Contender {
		return func(context.Context) (Result, error) {
			order = append(order, name)
			rate := rates[0]
			rates = rates[1:]
			return Result{PerSecond: rate}, nil
		}
	}
	best, err := bestOf(t.Context(), 2, contender("a", 1, 3), contender("b", 7, 5))
	if err != nil || best[0].PerSecond != 3 || best[1].PerSecond != 7 || strings.Join(order, "") != "abab" {
		t.Errorf("best is %v, %v, in the order %v, want 3 and 7 in the order abab", best, err, order)
	}
}

func TestMedianAndWorst(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	if median, worst := medianAndWorst([]time.Duration{9 * ms, 1 * ms, 2 * ms}); median != 2 || worst != 9 {
		t.Errorf("median %v, worst %v, want 2 and 9", median, worst)
	}
	if median, worst := medianAndWorst(nil); median != 0 || worst != 0 {
		t.Errorf("median %v, worst %v of nothing, want 0 and 0", median, worst)
	}
}

func TestParseMemory(t *testing.T) {
	t.Parallel()
	m, err := parseMemory("Name:\tingot\nVmHWM:\t    9000 kB\nVmRSS:\t    2000 kB\nRssAnon:\t    1500 kB\nRssFile:\t    " +
		" 500 kB\n")
	if want := (memory{2.048, 1.536, 0.512}); err != nil || m != want {
		t.Errorf("memory is %v, %v, want %v", m, err, want)
	}
	if _, err := parseMemory("Name:\tingot\n"); err == nil {
		t.Error("what is missing was made up")
	}
}
