package client_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
)

func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c := client.New(s.URL, client.Trust{}, client.Tokens{})
	t.Cleanup(c.Close)
	return c
}

// Failed calls are retried, except those that may already have had an effect.
func TestRetries(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1); r.Method == http.MethodPost || calls.Load() < 3 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		fmt.Fprint(w, `{"guid":"x"}`)
	})
	var got cfapi.Thing
	if err := c.Get(t.Context(), "/v3/x", nil, &got); err != nil || got.GUID != "x" || calls.Load() != 3 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
	calls.Store(0)
	if _, err := c.Post(t.Context(), "/v3/x", nil, nil); client.Status(err) != http.StatusBadGateway || calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"errors":[{"code":1,"title":"CF-X","detail":"first"},{"detail":"second"}]}`: "first; second",
		`{"errors":["one","two"]}`:                                       "one; two",
		`{"error":"unauthorized","error_description":"Bad credentials"}`: "Bad credentials",
		`<html>`: "the server replied 422 to GET /v3/x",
		`plain`:  "plain",
		``:       "the server replied 422 to GET /v3/x",
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, body)
		})
		if err := c.Get(t.Context(), "/v3/x", nil, nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func TestPagesAndJobs(t *testing.T) {
	t.Parallel()
	var polls atomic.Int32
	var c *client.Client
	c = serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v3/apps":
			fmt.Fprintf(w,
				`{"pagination":{"next":{"href":"%s/v3/more"}},"resources":[{"guid":"a"}],"included":{"spaces":[{"guid":"s1","name":"one"}]}}`, c.API)
		case "/v3/more":
			fmt.Fprint(w, `{"pagination":{"next":null},"resources":[{"guid":"b"}],"included":{"spaces":[{"guid":"s2","name":"two"}]}}`)
		case "/v3/jobs/good":
			state := "PROCESSING"
			if polls.Add(1) > 2 {
				state = "COMPLETE"
			}
			fmt.Fprintf(w, `{"state":%q,"warnings":[{"detail":"careful"}]}`, state)
		case "/v3/jobs/bad":
			fmt.Fprint(w, `{"state":"FAILED","errors":[{"detail":"it broke"}]}`)
		case "/v3/jobs/slow":
			fmt.Fprint(w, `{"state":"POLLING"}`)
		}
	})
	var warnings []string
	c.Warn = func(text string) { warnings = append(warnings, text) }
	apps, included, err := client.ListWith[cfapi.App](t.Context(), c, "/v3/apps", nil)
	if err != nil || len(apps) != 2 || client.Of[cfapi.Thing](included, "spaces")["s2"].Name != "two" {
		t.Errorf("apps are %+v, included %v, %v, want 2 apps and space two", apps, included, err)
	}
	job := func(name string) *client.Reply {
		return &client.Reply{Header: http.Header{"Location": {c.API + "/v3/jobs/" + name}}}
	}
	if err := c.Job(t.Context(), job("good")); err != nil || !slices.Equal(warnings, []string{"careful"}) {
		t.Errorf("error is %v, warnings %q, want only the warning careful", err, warnings)
	}
	if err := c.Job(t.Context(), job("bad")); err == nil || err.Error() != "it broke" {
		t.Errorf("error is %v, want it broke", err)
	}
	if err := c.JobStarted(t.Context(), job("slow")); !errors.Is(err, client.ErrInProgress) {
		t.Errorf("error is %v, want %v", err, client.ErrInProgress)
	}
}

// eitherWay is a listener that accepts both TLS and plain connections.
type eitherWay struct {
	net.Listener
	config *tls.Config
}

// readAgain is a connection whose first byte was already read.
type readAgain struct {
	net.Conn
	in io.Reader
}

func (c readAgain) Read(b []byte) (int, error) { return c.in.Read(b) }

func (l eitherWay) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	first, err := in.Peek(1)
	if err == nil && first[0] == 0x16 { // a TLS handshake
		return tls.Server(readAgain{conn, in}, l.config), nil
	}
	return readAgain{conn, in}, nil
}

// A redirect carries the token only to the API itself, and never from https to
// http.
func TestDownloadKeepsTheLogin(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	t.Cleanup(certified.Close)
	var host string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/same":
			w.Header().Set("Location", "/blob")
		case r.URL.Path == "/plain":
			w.Header().Set("Location", "http://"+host+"/blob")
		case r.URL.Path == "/other":
			w.Header().Set("Location", "https://localhost"+host[strings.LastIndex(host, ":"):]+"/blob")
		default:
			fmt.Fprint(w, r.Header.Get("Authorization"))
			return
		}
		w.WriteHeader(http.StatusFound)
	}))
	s.Listener = eitherWay{s.Listener, &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12}}
	s.Start()
	t.Cleanup(s.Close)
	host = s.Listener.Addr().String()
	claims, _ := json.Marshal(map[string]any{"exp": time.Now().Add(time.Hour).Unix()})
	token := "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".sig"
	c := client.New("https://"+host, client.Trust{Any: true}, client.Tokens{Access: token})
	t.Cleanup(c.Close)
	for path, want := range map[string]string{"/same": "bearer " + token, "/plain": "", "/other": ""} {
		var got strings.Builder
		if _, err := c.Download(t.Context(), path, &got); err != nil || got.String() != want {
			t.Errorf("%s: %v, the login is %q", path, err, got.String())
		}
	}
}

// An upload is a form with the list and the archive, exactly as long as
// announced.
func TestUpload(t *testing.T) {
	t.Parallel()
	var list, bits string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || r.ContentLength <= 0 {
			t.Errorf("%v, length %d", err, r.ContentLength)
		}
		form := multipart.NewReader(r.Body, params["boundary"])
		for {
			part, err := form.NextPart()
			if err != nil {
				break
			}
			content, _ := io.ReadAll(part)
			if part.FormName() == "bits" {
				bits = string(content)
			} else {
				list = string(content)
			}
		}
		fmt.Fprint(w, `{"guid":"p","state":"READY"}`)
	})
	var sent atomic.Int64
	archive := &client.Bits{Length: 9, Write: func(w io.Writer) error {
		_, err := io.WriteString(w, "zip bytes")
		return err
	}}
	pkg, err := c.Upload(t.Context(), "p", []client.Resource{{Path: "a", Mode: "0644", Size: 1}}, archive,
		func(n int64) { sent.Add(n) })
	if err != nil || pkg.State != "READY" || bits != "zip bytes" || !strings.Contains(list, `"path":"a"`) ||
		sent.Load() != 9 {
		t.Errorf("package is %+v, %v, want READY; sent bits %q, list %q, %d bytes", pkg, err, bits, list, sent.Load())
	}
	broken := &client.Bits{Length: 9, Write: func(io.Writer) error { return errors.New("the disk is gone") }}
	if _, err := c.Upload(t.Context(), "p", nil, broken, nil); err == nil ||
		!strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("error is %v, want the disk is gone", err)
	}
}

// A tail shows each line once, including lines that arrive late and lines that do
// not fit into one response.
func TestTail(t *testing.T) {
	t.Parallel()
	base := time.Unix(1000, 0)
	type entry struct {
		at   time.Time
		text string
	}
	for name, count := range map[string]int{"late": 3, "many": 2500} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []entry
			for i := range count {
				all = append(all, entry{base.Add(time.Duration(i) * time.Microsecond), fmt.Sprint("line ", i)})
			}
			want := len(all)
			if name == "late" {
				want++
			}
			var reads atomic.Int32
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				from, _ := strconv.ParseInt(r.URL.Query().Get("start_time"), 10, 64)
				known := all
				if reads.Add(1) > 3 && name == "late" { // older than what was shown
					known = append(slices.Clone(all), entry{base.Add(1), "late"})
					slices.SortFunc(known, func(a, b entry) int { return a.at.Compare(b.at) })
				}
				batch := []any{}
				for _, e := range known {
					if e.at.UnixNano() >= from && len(batch) < 1000 {
						batch = append(batch, map[string]any{
							"timestamp": fmt.Sprint(e.at.UnixNano()), "instance_id": "0", "tags": map[string]string{"source_type": "APP"},
							"log": map[string]string{"payload": base64.StdEncoding.EncodeToString([]byte(e.text)), "type": "OUT"},
						})
					}
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"envelopes": map[string]any{"batch": batch}})
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			seen := map[string]int{}
			err := c.PollTail(c.API)(ctx, "app", base, func(l client.Line) {
				if seen[l.Text]++; len(seen) == want {
					cancel()
				}
			})
			if err != nil || len(seen) != want {
				t.Fatalf("%v, %d lines", err, len(seen))
			}
			for text, n := range seen {
				if n != 1 {
					t.Fatalf("%s is shown %d times", text, n)
				}
			}
		})
	}
}

// A response that is too long is an error, not a part of it.
func TestTooLongResponse(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{0: true, 9: true, 10: true, 11: false, 100: false} {
		body, err := client.ReadBody(strings.NewReader(strings.Repeat("x", n)), 10)
		if (err == nil) != want || want && len(body) != n {
			t.Errorf("%d bytes: got %d, %v, want them all: %t", n, len(body), err, want)
		}
	}
}
