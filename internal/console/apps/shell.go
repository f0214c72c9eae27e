package apps

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"ingot/internal/base/background"
	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

const (
	// shellProtocol is the protocol of the shell's WebSocket. The browser offers the CSRF token
	// as a second one, because a script can set no other header.
	shellProtocol = "ingot-shell"
	// shellMessage limits a message of the browser.
	shellMessage = 64 << 10
	// shellAhead is how many bytes the server sends before the browser has shown them.
	shellAhead = 512 << 10
	// shellPing is how often the browser has to answer.
	shellPing = 30 * time.Second
	// maxCells limits the columns and rows of a terminal.
	maxCells = 1000
)

// Status codes of a shell's end beside those of the protocol; 4000 and above are for
// applications. The browser shows the reason.
const (
	statusRefused websocket.StatusCode = 4403
	statusEnded   websocket.StatusCode = 4401
)

type shellData struct {
	Processes []shellProcess
	Process   string
	Instance  int
	Disabled  string // why there can be no shell
	Socket    string // the address of the WebSocket
	Command   string
	Check     string // the command that shows whether ssh is enabled
}

type shellProcess struct {
	Type      string
	Instances []int
}

// shell is GET /console/apps/GUID/shell: ?process= type, ?instance= index.
func (c *pages) shell(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return ShowTab(c.Console, w, r, s, "shell", func(r *http.Request, call *page.Caller, d *Data) (any, error) {
		if !d.MayShell {
			return nil, fault.New(fault.Forbidden, "A shell needs the role of a space developer.")
		}
		data, err := loadShell(call, d, r.URL.Query())
		return data, err
	})
}

func loadShell(call *page.Caller, d *Data, q url.Values) (*shellData, error) {
	data := &shellData{Process: q.Get("process"), Check: page.Command("cf", "ssh-enabled", d.App.Name)}
	if data.Process == "" {
		data.Process = "web"
	}
	data.Instance, _ = strconv.Atoi(q.Get("instance"))
	data.Command = page.Command("cf", "ssh", d.App.Name, "--process", data.Process, "-i", strconv.Itoa(data.Instance))
	data.Socket = page.Path + "/apps/" + url.PathEscape(d.App.GUID) + "/shell/socket?" +
		url.Values{"process": {data.Process}, "instance": {strconv.Itoa(data.Instance)}}.Encode()
	var enabled struct {
		Enabled bool   `json:"enabled"`
		Reason  string `json:"reason"`
	}
	var processes []cfapi.Process
	err := page.Together(
		func() error { return call.Get(&enabled, "/v3/apps/"+d.App.GUID+"/ssh_enabled", nil) },
		page.List(call, &processes, "/v3/apps/"+d.App.GUID+"/processes", nil),
	)
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		if p.Instances == 0 {
			continue
		}
		one := shellProcess{Type: p.Type}
		for i := range min(p.Instances, 200) {
			one.Instances = append(one.Instances, i)
		}
		data.Processes = append(data.Processes, one)
	}
	switch {
	case !enabled.Enabled:
		data.Disabled = "ssh is disabled: " + strings.TrimSuffix(enabled.Reason, ".") + "."
	case !d.App.Started():
		data.Disabled = "The app is stopped. Start it first."
	case len(data.Processes) == 0:
		data.Disabled = "The app has no instances."
	}
	return data, nil
}

// shellSocket is GET /console/apps/GUID/shell/socket: a terminal in an instance, over a
// WebSocket. Binary messages are its input and output; text messages are control, see
// control.
func (c *pages) shellSocket(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	if r.ProtoMajor != 1 || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return fault.New(fault.BadRequest, "This is a WebSocket: the request needs the header 'Upgrade: websocket'.")
	}
	// Cookies are sent to a WebSocket from every site.
	if r.Header.Get("Origin") != page.Origin(r) {
		return fault.New(fault.Forbidden, "This shell was opened from another site.")
	}
	if !s.OffersCSRF(r) {
		return fault.New(fault.Forbidden, "This page is too old. Reload it.")
	}
	index, err := strconv.Atoi(r.URL.Query().Get("instance"))
	if err != nil || index < 0 {
		return fault.New(fault.Unprocessable, "The instance must be a number.")
	}
	ctx, leave, err := c.OpenStream(r, s, 0)
	if err != nil {
		return err
	}
	defer leave()
	control := http.NewResponseController(w)
	_, _ = control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{})
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{shellProtocol}})
	if err != nil {
		return nil //nolint:nilerr // Accept has responded
	}
	defer func() { _ = socket.CloseNow() }()
	socket.SetReadLimit(shellMessage)
	app := web.Param(r, "guid")
	client, err := c.logIn(ctx, r, s, app, r.URL.Query().Get("process"), index)
	if err != nil {
		_ = socket.Close(statusRefused, closeReason(err))
		return nil
	}
	defer client.Close()
	t := &terminal{socket: socket, client: client, request: r, acknowledged: make(chan int, 1)}
	probe := func() error {
		fresh, err := c.SessionOf(r.WithContext(ctx), s.Hash)
		if err != nil || fresh == nil {
			return err // the stream is ended by its session
		}
		d, err := loadName(c.Platform(r.WithContext(ctx), fresh), app)
		if err == nil && !d.MayShell {
			err = fault.New(fault.NotFound, "The user may not open shells in this app any more.")
		}
		return err
	}
	t.run(ctx, probe)
	return nil
}

// closeReason returns the text of an error that fits into the end of a WebSocket.
func closeReason(err error) string {
	text := "The shell failed."
	var e *fault.Error
	if errors.As(err, &e) && e.Code != fault.Internal {
		text = e.Message
	}
	return strings.ToValidUTF8(text[:min(len(text), 120)], "")
}

// terminal is an open shell.
type terminal struct {
	socket  *websocket.Conn
	client  *ssh.Client
	request *http.Request
	session *ssh.Session
	input   io.WriteCloser

	mu           sync.Mutex
	ahead        int      // bytes that were sent and not shown yet
	acknowledged chan int // has an element when ahead has shrunk
}

// control is a text message: of the browser, the size of its terminal or how many bytes it has
// shown; of the server, the exit status.
type control struct {
	Columns int  `json:"columns,omitempty"`
	Rows    int  `json:"rows,omitempty"`
	Shown   int  `json:"shown,omitempty"`
	Exit    *int `json:"exit,omitempty"`
}

// run runs a shell until it exits, the browser disconnects or ctx ends, and closes the
// WebSocket with the reason.
func (t *terminal) run(ctx context.Context, probe func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	exited, err := t.start(ctx)
	if err != nil {
		_ = t.socket.Close(statusRefused, "Nothing can be started in this instance. Does it still run?")
		return
	}
	var parts background.WaitGroup
	// The WebSocket is used until it is closed: ending the context of a read, a write or a ping
	// would break it off without a reason.
	parts.Go("console shell", func() { cancel(t.read(context.WithoutCancel(ctx))) })
	parts.Go("console shell", func() { cancel(t.watch(ctx, probe)) })
	var code websocket.StatusCode
	var reason string
	running := true
	select {
	case err := <-exited:
		running = false
		code, reason = t.exit(ctx, err)
	case <-ctx.Done():
		code, reason = ended(context.Cause(ctx))
	}
	_ = t.client.Close() // kills the shell
	_ = t.socket.Close(code, reason)
	cancel(nil)
	parts.Wait()
	if running {
		<-exited
	}
}

// ended returns how to close the WebSocket of a shell that was ended from outside.
func ended(cause error) (websocket.StatusCode, string) {
	switch {
	case errors.Is(cause, page.ErrLoggedOut):
		return statusEnded, "You have been logged out."
	case errors.Is(cause, errNoAccess):
		return statusEnded, "You may not open shells in this app any more."
	case errors.Is(cause, page.ErrStopping):
		return websocket.StatusGoingAway, "The server is restarting."
	}
	return websocket.StatusGoingAway, "The connection was lost."
}

// start starts the shell. Its end is sent to exited.
func (t *terminal) start(ctx context.Context) (exited <-chan error, err error) {
	if t.session, err = t.client.NewSession(); err != nil {
		return nil, err
	}
	q := t.request.URL.Query()
	err = t.session.RequestPty("xterm-256color", cells(q.Get("rows"), 24), cells(q.Get("columns"), 80),
		ssh.TerminalModes{})
	if err != nil {
		return nil, err
	}
	if t.input, err = t.session.StdinPipe(); err != nil {
		return nil, err
	}
	out := output{t, ctx}
	t.session.Stdout, t.session.Stderr = out, out
	if err := t.session.Shell(); err != nil {
		return nil, err
	}
	return background.Async("console shell", t.session.Wait), nil
}

func cells(text string, unknown int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return unknown
	}
	return min(n, maxCells)
}

// exit tells the browser the exit status.
func (t *terminal) exit(ctx context.Context, err error) (websocket.StatusCode, string) {
	status := 0
	var failed *ssh.ExitError
	switch {
	case errors.As(err, &failed):
		status = failed.ExitStatus()
	case err != nil:
		// The gateway closed the connection: the shell was idle, or the instance stopped.
		return websocket.StatusGoingAway, "The connection was closed: it was idle for too long, or the instance has stopped."
	}
	b, err := json.Marshal(control{Exit: &status})
	if err == nil {
		waiting, done := context.WithTimeout(context.WithoutCancel(ctx), shellPing)
		err = t.socket.Write(waiting, websocket.MessageText, b)
		done()
	}
	if err != nil {
		return websocket.StatusGoingAway, "the browser is gone"
	}
	return websocket.StatusNormalClosure, "exit " + strconv.Itoa(status)
}

// Reasons of the end of a shell beside those of a stream.
var (
	errGone     = errors.New("the browser is gone")
	errNoAccess = errors.New("the user may not open shells in the app any more")
)

// read passes input on until the WebSocket is closed.
func (t *terminal) read(ctx context.Context) error {
	for {
		kind, b, err := t.socket.Read(ctx)
		if err != nil {
			return errGone
		}
		if kind == websocket.MessageBinary {
			// A shell that has exited reads nothing; the exit ends this loop.
			_, _ = t.input.Write(b)
			continue
		}
		var c control
		if json.Unmarshal(b, &c) != nil {
			return errGone
		}
		if c.Columns > 0 && c.Rows > 0 {
			_ = t.session.WindowChange(min(c.Rows, maxCells), min(c.Columns, maxCells))
		}
		t.shown(c.Shown)
	}
}

// watch ends a shell whose browser does not answer, or whose user may not open it any more.
func (t *terminal) watch(ctx context.Context, probe func() error) error {
	tick := time.NewTicker(shellPing)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		waiting, done := context.WithTimeout(context.WithoutCancel(ctx), shellPing)
		err := t.socket.Ping(waiting)
		done()
		if err != nil {
			return errGone
		}
		switch err := probe(); {
		case fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.InvalidToken):
			return page.ErrLoggedOut
		case page.Gone(err):
			return errNoAccess
		}
	}
}

// output sends what the shell writes to the browser.
type output struct {
	t   *terminal
	ctx context.Context
}

// Write implements io.Writer. It waits for a browser that is slow.
func (o output) Write(b []byte) (int, error) {
	if err := o.t.reserve(o.ctx, len(b)); err != nil {
		return 0, err
	}
	// A shell that is ended may still write; see run.
	return len(b), o.t.socket.Write(context.WithoutCancel(o.ctx), websocket.MessageBinary, b)
}

// reserve waits until the browser has shown enough for n more bytes.
func (t *terminal) reserve(ctx context.Context, n int) error {
	for {
		t.mu.Lock()
		free := t.ahead < shellAhead
		if free {
			t.ahead += n
		}
		t.mu.Unlock()
		if free {
			return nil
		}
		select {
		case <-t.acknowledged:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (t *terminal) shown(n int) {
	if n <= 0 {
		return
	}
	t.mu.Lock()
	t.ahead = max(0, t.ahead-n)
	t.mu.Unlock()
	select {
	case t.acknowledged <- n:
	default:
	}
}
