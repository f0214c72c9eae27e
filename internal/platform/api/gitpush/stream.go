package gitpush

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/clock"
	"ingot/internal/base/web"
)

// Stream is a connection, other than HTTP, on which a client speaks git's protocol: both sides send when they
// like, and the client does not end what it sends before it has the answer.
type Stream struct {
	Service string // git-receive-pack or git-upload-pack
	Path    string // /ORG/SPACE/APP
	Token   string // of the user
	Remote  string // the client's address
	In      io.Reader
	Out     io.Writer
	// Closing is canceled when the server stops.
	Closing context.Context
	// Cut ends the connection, and with it calls of In and Out.
	Cut func()
}

type streamKey struct{}

func isStream(ctx context.Context) bool { return ctx.Value(streamKey{}) != nil }

// Serve serves the connection with the routes of this package, in a handler that has them at base, the
// API's URL: permissions, limits and results are those of HTTP. It reports whether git got its answer.
func (s *Stream) Serve(ctx context.Context, handler http.Handler, base *url.URL) bool {
	if s.Service != receivePack && s.Service != uploadPack {
		return false
	}
	path, ok := s.path()
	if !ok {
		s.fail("The path of an app is /ORG/SPACE/APP")
		return false
	}
	ctx = context.WithValue(web.WithClosing(ctx, s.Closing), streamKey{}, true)
	var refs bytes.Buffer
	if !s.request(ctx, handler, base, http.MethodGet, path+"/info/refs?service="+s.Service, &refs) {
		return false
	}
	// HTTP has a line and a flush before what other connections begin with.
	if _, _, err := readLine(&refs); err != nil {
		return false
	}
	if _, flush, err := readLine(&refs); err != nil || !flush {
		return false
	}
	if _, err := s.Out.Write(refs.Bytes()); err != nil {
		return false
	}
	if !s.request(ctx, handler, base, http.MethodPost, path+"/"+s.Service, s.Out) {
		return false
	}
	if s.Service == receivePack {
		// A client whose push was refused early may still be sending it, and reads the answer afterwards.
		_, _ = io.Copy(io.Discard, s.In)
	}
	return true
}

// path returns the path of the routes.
func (s *Stream) path() (string, bool) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(s.Path, "/"), "/"), "/")
	if len(parts) != 3 {
		return "", false
	}
	for i, p := range parts {
		if p == "" || p == "." || p == ".." {
			return "", false
		}
		parts[i] = url.PathEscape(p)
	}
	return "/git/" + strings.Join(parts, "/"), true
}

// request passes a request to the handler. It reports whether it succeeded; otherwise git has the reason.
func (s *Stream) request(ctx context.Context, handler http.Handler, base *url.URL, method, path string,
	out io.Writer) bool {
	target, err := base.Parse(path)
	if err != nil {
		s.fail("The path of an app is /ORG/SPACE/APP")
		return false
	}
	w := &streamWriter{header: http.Header{}, out: out, cut: s.Cut}
	r, err := http.NewRequestWithContext(ctx, method, target.String(), streamReader{s.In, w})
	if err != nil {
		return false
	}
	r.RequestURI, r.RemoteAddr, r.ContentLength = target.RequestURI(), s.Remote, -1
	r.Header.Set("Authorization", "bearer "+s.Token)
	r.Header.Set("X-Forwarded-Proto", base.Scheme)
	if method == http.MethodGet {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	handler.ServeHTTP(w, r)
	if w.failed {
		s.fail(w.reason.String())
	}
	return !w.failed
}

// fail sends a line that git shows as the reason why it ends.
func (s *Stream) fail(why string) {
	_, _ = s.Out.Write(appendLine(nil, "ERR "+oneLine(why, longestReason)))
}

// maxFailure limits the text of a failed response, of which git gets a line.
const maxFailure = 4096

// streamWriter is the response to a request that came on a stream.
type streamWriter struct {
	header http.Header
	out    io.Writer
	cut    func()
	// failed: the response is a reason, and not for git's protocol.
	failed       bool
	reason       bytes.Buffer
	reads, wrote time.Time // deadlines
}

func (w *streamWriter) Header() http.Header { return w.header }

func (w *streamWriter) WriteHeader(status int) {
	w.failed = w.failed || status >= http.StatusBadRequest
}

func (w *streamWriter) Write(p []byte) (int, error) {
	if w.failed {
		if room := maxFailure - w.reason.Len(); room > 0 {
			w.reason.Write(p[:min(room, len(p))])
		}
		return len(p), nil
	}
	defer w.cutAt(w.wrote)()
	return w.out.Write(p)
}

// FlushError implements what http.ResponseController looks for: nothing is held back.
func (w *streamWriter) FlushError() error { return nil }

func (w *streamWriter) SetReadDeadline(t time.Time) error {
	w.reads = t
	return nil
}

func (w *streamWriter) SetWriteDeadline(t time.Time) error {
	w.wrote = t
	return nil
}

// cutAt ends the connection at a time unless it is called off.
func (w *streamWriter) cutAt(t time.Time) (callOff func()) {
	if t.IsZero() {
		return func() {}
	}
	return clock.System("git stream").AfterFunc(max(time.Until(t), 0), w.cut)
}

// streamReader is the body of a request that came on a stream.
type streamReader struct {
	in io.Reader
	w  *streamWriter
}

func (r streamReader) Read(p []byte) (int, error) {
	defer r.w.cutAt(r.w.reads)()
	n, err := r.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // the connection was cut
	}
	return n, err
}

func (r streamReader) Close() error { return nil }
