package gitpush

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"ingot/internal/base/web"
)

// TestStreams compares what goes to the API and what comes back.
func TestStreams(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("https://api.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/o/s/a":        "/git/o/s/a",
		"o/s/a/":        "/git/o/s/a",
		"/o o/ü/a.git":  "/git/o%20o/%C3%BC/a.git",
		"/o/s?x=1/a":    "/git/o/s%3Fx=1/a",
		"/o/s/a%2fb":    "/git/o/s/a%252fb",
		"/o/s":          "",
		"/o/s/a/b":      "",
		"/o/../a":       "",
		"/git/./s/a":    "",
		"//s/a":         "",
		"/o/s/fails":    "ERR no such  app",
		"/o/s/halfway":  "ERR it ended",
		"/o/s/wordless": "ERR ",
	} {
		var asked []string
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Method+" "+r.URL.EscapedPath())
			if r.Header.Get("Authorization") != "bearer t" || r.RemoteAddr != "client" || r.Host != base.Host ||
				r.Header.Get("X-Forwarded-Proto") != "https" || !isStream(r.Context()) {
				t.Errorf("the request is %+v", r)
			}
			switch {
			case strings.Contains(path, "fails"):
				http.Error(w, "no such\x1b app", http.StatusNotFound)
			case strings.Contains(path, "wordless"):
				w.WriteHeader(http.StatusForbidden)
			case r.Method == http.MethodGet:
				fmt.Fprintf(w, "%s0000refs", appendLine(nil, "# service=git-upload-pack\n"))
			default:
				body, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "<%s>", body)
				if strings.Contains(path, "halfway") {
					http.Error(w, "it ended", http.StatusNotFound)
					return
				}
			}
		})
		var out bytes.Buffer
		s := &Stream{Service: uploadPack, Path: path, Token: "t", Remote: "client", In: strings.NewReader("in"), Out: &out,
			Closing: t.Context(), Cut: func() { t.Error("the connection is cut") }}
		done := s.Serve(t.Context(), api, base)
		switch {
		case strings.HasPrefix(want, "ERR"):
			if done || !strings.Contains(out.String(), want) {
				t.Errorf("%s: %v %q, want %q", path, done, &out, want)
			}
		case want == "":
			if done || len(asked) > 0 || !strings.Contains(out.String(), "ERR The path of an app is /ORG/SPACE/APP") {
				t.Errorf("%s: %v %q after %q, want it refused", path, done, &out, asked)
			}
		case !done || out.String() != "refs<in>" ||
			strings.Join(asked, " ") != "GET "+want+"/info/refs POST "+want+"/git-upload-pack":
			t.Errorf("%s: %v %q after %q, want %s", path, done, &out, asked, want)
		}
	}
}

// TestStreamDeadlines cuts connections that do not move.
func TestStreamDeadlines(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*http.ResponseController) error{
		"read":  func(c *http.ResponseController) error { return c.SetReadDeadline(time.Unix(1, 0)) },
		"write": func(c *http.ResponseController) error { return c.SetWriteDeadline(time.Unix(1, 0)) },
	} {
		in, out := io.Pipe()
		cut := make(chan bool, 2)
		var read error
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := set(http.NewResponseController(w)); err != nil {
				t.Error(err)
			}
			if name == "write" {
				_, _ = w.Write([]byte("it is never read"))
				return
			}
			_, read = r.Body.Read(make([]byte, 1))
		})
		s := &Stream{Service: uploadPack, In: in, Out: out, Closing: t.Context(), Cut: func() {
			cut <- true
			out.CloseWithError(io.ErrClosedPipe)
			in.CloseWithError(io.ErrClosedPipe)
		}}
		base := &url.URL{Scheme: "http", Host: "h"}
		handler := web.Pipeline(api, web.FormatGit, slog.New(slog.DiscardHandler))
		s.request(t.Context(), handler, base, http.MethodPost, "/x", out)
		if !<-cut || name == "read" && !errors.Is(read, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v, want the connection cut", name, read)
		}
	}
}

// TestStreamedWants answers each list of commits, as a client expects that does not end its request.
func TestStreamedWants(t *testing.T) {
	t.Parallel()
	lists := 0
	listed := func() error { lists++; return nil }
	text := appendLine(nil, "want "+hash(1).String()+"\n")
	text = append(text, flushLine...)
	for range 3 {
		text = append(appendLine(text, "have "+hash(2).String()+"\n"), flushLine...)
	}
	text = appendLine(text, "done\n")
	if q, err := readWants(iotest.OneByteReader(bytes.NewReader(text)), listed); err != nil || !q.done || lists != 3 {
		t.Errorf("%+v, %v, %d lists, want 3", q, err, lists)
	}
	if q, err := readWants(strings.NewReader(flushLine+"never read"), listed); err != nil || len(q.wants) != 0 {
		t.Errorf("nothing wanted: %+v, %v", q, err)
	}
}
