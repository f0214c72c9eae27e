package drain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/safedial"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/drain"
	"ingot/internal/platform/logs/logfiles"
)

func TestContract(t *testing.T) {
	t.Parallel()
	s := open(t, logfiles.Options{})
	dir := t.TempDir()
	backgroundtest.Stress(t, func(t *testing.T) background.Service {
		return drain.New(s, one("a", drain.Drain{ID: "d", URL: "syslog://127.0.0.1:1"}),
			options(filepath.Join(dir, fmt.Sprint(time.Now().UnixNano()))))
	})
}

func TestMessages(t *testing.T) {
	t.Parallel()
	r := listen(t, "127.0.0.1:0", nil, 0, 0)
	s := open(t, logfiles.Options{})
	url := "syslog://" + r.listener.Addr().String()
	plain := drain.Drain{ID: "plain", URL: url + "?disable-metadata=true",
		Host: drain.Hostname("my org", "dev_1", "Äpp.x")}
	full := drain.Drain{ID: "full", URL: url, About: logs.About{Tags: map[string]string{"app_name": `a"b]c\d`,
		"not a name": "x"}}}
	metrics := drain.Drain{ID: "metrics", URL: url + "?drain-type=metrics"}
	o := options(t.TempDir())
	m := start(t, s, &drains{of: map[string][]drain.Drain{"guid": {plain, full, metrics}}}, o)
	testkit.Eventually(t, "all begin", func() bool {
		files, _ := filepath.Glob(filepath.Join(o.Positions.(drain.Files).Dir, "*.json"))
		return len(files) == 2
	})
	err := s.Append(
		platform.LogLine{App: "guid", Time: t0, Source: "APP/PROC/WEB/SIDECAR/MY CAR", Instance: "3",
			Text: []byte("out\x00 \xc3\xa4\r\n"), Stream: "inst", Seq: 1},
		platform.LogLine{App: "guid", Time: t0.Add(1), Source: "RTR", Instance: "0", Stderr: true,
			Text: []byte("two\nlines")},
	)
	if err != nil {
		t.Fatal(err)
	}
	got := r.await(t, "the messages", func(all []string) bool { return len(all) == 4 })
	want := map[string]bool{
		"<14>1 2026-03-01T12:00:00.123456+00:00 my-org.dev-1.pp-x guid [APP/PROC/WEB/SIDECAR/MY-CAR/3] - - out ä\n": true,
		"<11>1 2026-03-01T12:00:00.123456+00:00 my-org.dev-1.pp-x guid [RTR/0] - - two\nlines\n":                    true,
		`<14>1 2026-03-01T12:00:00.123456+00:00 - guid [APP/PROC/WEB/SIDECAR/MY-CAR/3] - [tags@47450 app_id="guid" app_name="a\"b\]c\\d" instance_id="3" job="diego-cell" ` +
			`not-a-name="x" origin="rep" process_instance_id="inst" process_type="web" source_id="guid" source_type="APP/PROC/WEB/SIDECAR/MY CAR"] out ä` + "\n": true,
		`<11>1 2026-03-01T12:00:00.123456+00:00 - guid [RTR/0] - [tags@47450 app_id="guid" app_name="a\"b\]c\\d" instance_id="0" job="router" not-a-name="x" ` +
			`origin="gorouter" source_id="guid" source_type="RTR"] two` + "\nlines\n": true,
	}
	for _, g := range got {
		if !want[g] {
			t.Errorf("unexpected: %q", g)
		}
		delete(want, g)
	}
	for w := range want {
		t.Errorf("missing: %q", w)
	}
	for _, st := range m.Stats() {
		if st.ID == "metrics" && st.Sent != 0 {
			t.Errorf("drain is %+v, want nothing sent", st)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"syslog://logs.example.com:514":                                          "",
		"syslog-tls://u:p@logs.example.com:6514?x":                               "",
		"https://logs.example.com/in?token=hunter2":                              "",
		"https-batch://logs.example.com":                                         "",
		"syslog://logs.example.com":                                              "no port",
		"syslog://x:1?include-log-source-types=app,RTR":                          "",
		"syslog://x:1?include-log-source-types=APP&exclude-log-source-types=RTR": "at the same time",
		"https://logs.example.com?exclude-log-source-types=hunter2":              "not known",
		"http://logs.example.com/hunter2":                                        "must begin with",
		"syslog://:514":                                                          "no host",
		"hunter2":                                                                "no host",
		"syslog://hunter2\x7f@x:1":                                               "cannot be read",
	} {
		err := drain.Check(url)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
	}
}

// A receiver that cuts connections off in the middle, with what it has not read
// yet, gets every line.
func TestCutOff(t *testing.T) {
	t.Parallel()
	r := listen(t, "127.0.0.1:0", nil, 137, 5)
	s := open(t, logfiles.Options{})
	o := options(t.TempDir())
	o.Settle = time.Second // longer than lines lie about unread
	m := start(t, s, one("a", drain.Drain{ID: "d", URL: "syslog://" + r.listener.Addr().String()}), o)
	settled(t, s, m)
	const total = 2000
	write(t, s, "a", 0, total)
	all := r.await(t, "all lines", func(all []string) bool { return len(numbers(all)) == total })
	checkComplete(t, all, 0, total)
	if len(said(t, s, "a")) == 0 {
		t.Error("the app's log does not tell of the failures")
	}
}

// Lines wait while the receiver is away, and while the server is.
func TestAway(t *testing.T) {
	t.Parallel()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t)))
	r := listen(t, address, nil, 0, 0)
	s := open(t, logfiles.Options{})
	dir := t.TempDir()
	source := one("a", drain.Drain{ID: "d", URL: "syslog://" + address})
	write(t, s, "a", 0, 10) // before there was a drain: not for it
	m := start(t, s, source, options(dir))
	settled(t, s, m)
	write(t, s, "a", 10, 20)
	r.await(t, "the first lines", func(all []string) bool { return len(all) == 10 })
	settled(t, s, m)
	r.stop()
	write(t, s, "a", 20, 120)
	testkit.Eventually(t, "the failure is told", func() bool { return len(said(t, s, "a")) > 0 })
	if text := said(t, s, "a")[0]; !strings.HasPrefix(text, "Syslog Drain: Error when writing to syslog://"+address+": ") {
		t.Errorf("log says %q, want an error of syslog://%s", text, address)
	}
	if st := m.Stats()[0]; st.Error == "" {
		t.Errorf("drain is %+v, want an error", st)
	}
	m.Stop()
	write(t, s, "a", 120, 200)
	again := listen(t, address, nil, 0, 0)
	m = start(t, s, source, options(dir))
	all := again.await(t, "the lines that waited", func(all []string) bool { return len(numbers(all)) == 180 })
	checkComplete(t, all, 20, 200)
	settled(t, s, m)
	m.Stop()
	// A position that was cut short: rather twice than never.
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("positions are %v, %v, want 1", files, err)
	}
	if err := os.WriteFile(files[0], []byte(`{"app":"a","sent":19`), 0o600); err != nil {
		t.Fatal(err)
	}
	again.stop()
	third := listen(t, address, nil, 0, 0)
	m = start(t, s, source, options(dir))
	checkComplete(t, third.await(t, "all lines", func(all []string) bool { return len(numbers(all)) == 200 }), 0, 200)
	// A drain that is no longer wanted is forgotten; not while the source fails.
	source.set(nil, errors.New("the database is away"))
	m.Kick()
	settled(t, s, m)
	source.set(map[string][]drain.Drain{}, nil)
	m.Kick()
	testkit.Eventually(t, "the position is gone",
		func() bool { _, err := os.Stat(files[0]); return errors.Is(err, os.ErrNotExist) })
	if len(m.Stats()) != 0 {
		t.Errorf("drains are %+v, want none", m.Stats())
	}
}

// A receiver that was away for long gets what waited as fast as it takes it: that
// it could not be reached is no reason to send few lines at a time and to wait
// whether they are taken, which here would be for an hour.
func TestAwayForManyTries(t *testing.T) {
	t.Parallel()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t)))
	r := listen(t, address, nil, 0, 0)
	s := open(t, logfiles.Options{})
	o := options(t.TempDir())
	o.Settle = time.Hour
	m := start(t, s, one("a", drain.Drain{ID: "d", URL: "syslog://" + address}), o)
	settled(t, s, m)
	r.stop()
	write(t, s, "a", 0, 2000)
	testkit.Eventually(t, "it failed often", func() bool { return m.Stats()[0].Failures >= 10 })
	r = listen(t, address, nil, 0, 0)
	checkComplete(t, r.await(t, "all lines", func(all []string) bool { return len(numbers(all)) == 2000 }), 0, 2000)
	testkit.Eventually(t, "it is said to be well", func() bool {
		st := m.Stats()[0]
		return st.Failures == 0 &&
			st.Error == ""
	})
}

// Lines that the store had to drop before the receiver came back are counted,
// and the app's log tells.
func TestAwayTooLong(t *testing.T) {
	t.Parallel()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t)))
	r := listen(t, address, nil, 0, 0)
	s := open(t, logfiles.Options{PerAppBytes: 128 << 10})
	m := start(t, s, one("a", drain.Drain{ID: "d", URL: "syslog://" + address}), options(t.TempDir()))
	settled(t, s, m)
	r.stop()
	const total = 20000
	write(t, s, "a", 0, total)
	r = listen(t, address, nil, 0, 0)
	all := r.await(t, "the last line", func(all []string) bool {
		got := numbers(all)
		return len(got) > 0 && got[len(got)-1] == total-1
	})
	lost := m.Stats()[0].Lost
	got := numbers(all)
	if lost == 0 || len(got)+int(lost) < total {
		t.Errorf("%d lines came, %d are told to be lost, %d were written", len(got), lost, total)
	}
	testkit.Eventually(t, "the loss is told", func() bool {
		return strings.Contains(strings.Join(said(t, s, "a"), "\n"), "lines were not sent to syslog://")
	})
}

func TestPrivateAddressesAndSecrets(t *testing.T) {
	t.Parallel()
	r := listen(t, "127.0.0.1:0", nil, 0, 0)
	s := open(t, logfiles.Options{})
	var log bytes.Buffer
	o := options(t.TempDir())
	o.Guard = safedial.Guard{}
	o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	host := r.listener.Addr().String()
	m := start(t, s, &drains{of: map[string][]drain.Drain{
		"a": {{ID: "d", URL: "syslog://hunter2:hunter2@" + host + "/hunter2?hunter2=hunter2"}},
		"b": {{ID: "d", URL: "https://hunter2:hunter2@" + host + "/hunter2?hunter2=hunter2"}},
		"c": {{ID: "d", URL: "ftp://hunter2:hunter2@" + host}},
	}}, o)
	testkit.Eventually(t, "they begin", func() bool {
		files, _ := filepath.Glob(filepath.Join(o.Positions.(drain.Files).Dir, "*.json"))
		return len(files) == 2
	})
	for _, app := range []string{"a", "b"} {
		write(t, s, app, 0, 1)
		testkit.Eventually(t, "it is refused", func() bool { return len(said(t, s, app)) > 0 })
		if text := said(t, s, app)[0]; !strings.Contains(text, "private network") || strings.Contains(text, "hunter2") {
			t.Errorf("log says %q, want the private network and no password", text)
		}
	}
	testkit.Eventually(t, "the bad URL is told", func() bool { return len(said(t, s, "c")) > 0 })
	if text := said(t, s, "c")[0]; !strings.Contains(text, "must begin with syslog://") ||
		strings.Contains(text, "hunter2") {
		t.Errorf("log says %q, want the schemes allowed and no password", text)
	}
	m.Stop()
	if text := fmt.Sprintf("%s %+v", log.String(), m.Stats()); strings.Contains(text, "hunter2") {
		t.Errorf("log and stats are %q, want no password", text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.conns) > 0 {
		t.Error("it was connected to")
	}
}

func TestHTTPS(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"https", "https-batch"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			sink := &receiver{}
			sink.init()
			var requests atomic.Int64
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				user, password, _ := r.BasicAuth()
				switch n := requests.Add(1); {
				case err != nil || user != "u" || password != "p" || r.URL.RequestURI() != "/in?token=x" ||
					r.Method != http.MethodPost:
					w.WriteHeader(http.StatusTeapot)
				case n%7 == 3:
					w.WriteHeader(http.StatusServiceUnavailable)
				case scheme == "https" && strings.HasSuffix(string(body), "] line 5\n"):
					w.WriteHeader(http.StatusRequestEntityTooLarge)
				default:
					for text := range strings.Lines(string(body)) {
						sink.add(text)
					}
				}
			}))
			defer server.Close()
			s := open(t, logfiles.Options{})
			o := options(t.TempDir())
			o.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig
			url := strings.Replace(server.URL, "https://127.0.0.1", scheme+"://u:p@127.0.0.1", 1) + "/in?token=x"
			m := start(t, s, one("a", drain.Drain{ID: "d", URL: url}), o)
			settled(t, s, m)
			write(t, s, "a", 0, 100)
			want, lost := 100, uint64(0)
			if scheme == "https" {
				want, lost = 99, 1
			}
			sink.await(t, "all lines", func(all []string) bool { return len(numbers(all)) == want })
			settled(t, s, m)
			if st := m.Stats()[0]; st.Lost != lost {
				t.Errorf("drain is %+v, want %d lost", st, lost)
			}
			if n := requests.Load(); scheme == "https-batch" && n > 50 {
				t.Errorf("%d requests for 100 lines", n)
			}
			m.Stop()
		})
	}
}

func TestAppsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	// One receiver never reads: its lines stay where they are.
	stuck, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	r := listen(t, "127.0.0.1:0", nil, 0, 0)
	s := open(t, logfiles.Options{})
	o := options(t.TempDir())
	m := start(t, s, &drains{of: map[string][]drain.Drain{
		"noisy": {{ID: "d", URL: "syslog://" + stuck.Addr().String()}},
		"quiet": {{ID: "d", URL: "syslog://" + r.listener.Addr().String()}},
	}}, o)
	testkit.Eventually(t, "they begin", func() bool {
		files, _ := filepath.Glob(filepath.Join(o.Positions.(drain.Files).Dir, "*.json"))
		return len(files) == 2
	})
	ctx, cancel := context.WithCancel(t.Context())
	noise := make(chan struct{})
	go func() {
		defer close(noise)
		for i := 0; ctx.Err() == nil; i += 1000 {
			write(t, s, "noisy", i, i+1000)
		}
	}()
	for i := range 20 {
		write(t, s, "quiet", i, i+1)
		r.await(t, "a line of the quiet app", func(all []string) bool { return len(numbers(all)) == i+1 })
	}
	cancel()
	<-noise
	m.Stop()
}

// A drain can be restricted to sources. Lines that are not for it count as taken, so that it
// does not wait for their receipt and does not read them again.
func TestSourceTypes(t *testing.T) {
	t.Parallel()
	r := listen(t, "127.0.0.1:0", nil, 0, 0)
	s := open(t, logfiles.Options{})
	url := "syslog://" + r.listener.Addr().String() + "?disable-metadata=true&"
	o := options(t.TempDir())
	m := start(t, s, &drains{of: map[string][]drain.Drain{"guid": {
		{ID: "only", URL: url + "include-log-source-types=app", Host: "only"},
		{ID: "not", URL: url + "exclude-log-source-types=APP,API", Host: "not"},
	}}}, o)
	ready := func(taken uint64) func() bool {
		return func() bool {
			n := 0
			for _, st := range m.Stats() {
				if st.Ready && st.Taken >= taken && st.Waiting == 0 {
					n++
				}
			}
			return n == 2
		}
	}
	testkit.Eventually(t, "both begin", ready(0))
	for i, source := range []string{"APP/PROC/WEB", "RTR", "APP/TASK/X", "API", "STG", "RTR"} {
		if err := s.Append(platform.LogLine{App: "guid", Time: t0.Add(time.Duration(i)), Source: source, Instance: "0",
			Text: []byte(source)}); err != nil {
			t.Fatal(err)
		}
	}
	got := strings.Join(r.await(t, "the messages", func(all []string) bool { return len(all) == 5 }), "")
	for _, want := range []string{"only guid [APP/PROC/WEB/0]", "only guid [APP/TASK/X/0]", "not guid [RTR/0]",
		"not guid [STG/0]"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	testkit.Eventually(t, "all lines are taken", ready(6))
}
