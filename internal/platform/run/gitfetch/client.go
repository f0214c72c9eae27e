package gitfetch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/safedial"
	"ingot/internal/platform"
	"ingot/internal/platform/storage/gitpack"
)

// Config configures a Client.
type Config struct {
	// Guard permits the addresses of git servers.
	Guard safedial.Guard
	// Routes are those of this server's apps, one of which may be a git server.
	Routes safedial.Routes
	// TLS is for connections; nil means the system's certificates.
	TLS *tls.Config
	// UserAgent is how the client calls itself.
	UserAgent string
	// Timeout limits a fetch as a whole; 0 means 5 minutes.
	Timeout time.Duration
	// MaxBytes limits what is fetched and unpacked; 0 means 1 GiB.
	MaxBytes int64
	// Scratch is the directory for temporary files.
	Scratch string
}

// Client fetches commits. It is safe for concurrent use.
type Client struct {
	config     Config
	tls, plain http.RoundTripper
}

const (
	maxRedirects = 5
	// maxRefs limits the list of references, of which only those of one name are asked for.
	maxRefs     = 1 << 20
	service     = "git-upload-pack"
	infoRefs    = "/info/refs"
	defaultSize = 1 << 30
)

var errPlain = errors.New("without TLS")

// New returns a Client.
func New(c Config) *Client {
	c.Timeout = cmp.Or(c.Timeout, 5*time.Minute)
	c.MaxBytes = cmp.Or(c.MaxBytes, defaultSize)
	base := &http.Transport{
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 2, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true, TLSClientConfig: c.TLS,
		DisableCompression: true, // a small response could become a large one
	}
	const dial = 10 * time.Second
	plain := base.Clone()
	plain.Proxy = nil
	plain.DialContext = (&net.Dialer{Timeout: dial, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		switch {
		case err == nil && c.Guard.Lists(at.Addr()):
			return nil
		case err != nil || !c.Guard.Permits(at.Addr()):
			return safedial.ErrPrivate
		}
		return errPlain
	}}).DialContext
	return &Client{config: c, tls: safedial.Transport(base, c.Guard, c.Routes, dial), plain: plain}
}

// Fetched is a commit with its files, but without its history.
type Fetched struct {
	Commit  gitpack.Hash
	Objects *gitpack.Objects
}

// Fetch fetches the newest commit of the source's branch. It returns nil if that is the commit known.
func (c *Client) Fetch(ctx context.Context, src *platform.GitSource, known string) (*Fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	f := &fetch{Client: c, ctx: ctx, src: src}
	out, err := f.run(known)
	if err != nil {
		return nil, f.explain(err)
	}
	return out, nil
}

// fetch is a fetch in progress.
type fetch struct {
	*Client
	ctx  context.Context
	src  *platform.GitSource
	base *url.URL // of the repository, after redirects
	home string   // the host that gets the credentials
}

func (f *fetch) run(known string) (*Fetched, error) {
	if err := f.discover(); err != nil {
		return nil, err
	}
	commit, err := f.resolve()
	if err != nil {
		return nil, err
	}
	if commit.String() == known {
		return nil, nil
	}
	objects, err := gitpack.New(f.config.Scratch, gitpack.Limits{Bytes: f.config.MaxBytes})
	if err != nil {
		return nil, err
	}
	if err := f.pack(commit, objects); err != nil {
		objects.Close()
		return nil, err
	}
	return &Fetched{commit, objects}, nil
}

// discover finds the final address of the repository, and checks the version of the protocol.
func (f *fetch) discover() error {
	u, err := url.Parse(strings.TrimRight(f.src.URL, "/"))
	if err != nil {
		return err
	}
	f.base, f.home = u, u.Scheme+"://"+u.Host
	at := *u
	at.Path, at.RawPath, at.RawQuery = u.Path+infoRefs, "", "service="+service
	for range maxRedirects + 1 {
		reply, err := f.send(http.MethodGet, &at, nil)
		if err != nil {
			return err
		}
		if to := reply.Header.Get("Location"); reply.StatusCode/100 == 3 && to != "" {
			_ = reply.Body.Close()
			if err := f.redirect(&at, to); err != nil {
				return err
			}
			continue
		}
		err = f.advertised(reply)
		_ = reply.Body.Close()
		return err
	}
	return fault.New(fault.Unprocessable, "The git server %s redirects more than %d times: use the final address of the "+
		"repository", hostOf(f.src), maxRedirects)
}

// redirect changes at to the target of a redirect.
func (f *fetch) redirect(at *url.URL, to string) error {
	next, err := at.Parse(to)
	if err != nil || next.Scheme != "https" && next.Scheme != "http" || next.Host == "" || next.User != nil ||
		!strings.HasSuffix(next.Path, infoRefs) || next.Query().Get("service") != service {
		return fault.New(fault.Unprocessable, "The git server %s redirects to something else than a git repository: check "+
			"the address, and that the user name and the token are right if the repository is private", hostOf(f.src))
	}
	if at.Scheme == "https" && next.Scheme != "https" {
		return fault.New(fault.Unprocessable, "The git server %s redirects from https to http, which is refused: use the "+
			"final address of the repository", hostOf(f.src))
	}
	*at = *next
	base := *next
	base.Path, base.RawPath, base.RawQuery, base.Fragment = strings.TrimSuffix(next.Path, infoRefs), "", "", ""
	f.base = &base
	return nil
}

// send sends a request; only the host of the source gets credentials.
func (f *fetch) send(method string, at *url.URL, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(f.ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Git-Protocol", "version=2")
	r.Header.Set("User-Agent", f.config.UserAgent)
	if body != nil {
		r.Header.Set("Content-Type", "application/x-"+service+"-request")
		r.Header.Set("Accept", "application/x-"+service+"-result")
	}
	if (f.src.Username != "" || f.src.Password != "") && at.Scheme+"://"+at.Host == f.home {
		r.SetBasicAuth(cmp.Or(f.src.Username, "git"), f.src.Password)
	}
	through := f.tls
	if at.Scheme == "http" && !(f.config.Routes.Has != nil && f.config.Routes.Has(at.Host, at.EscapedPath())) {
		through = f.plain
	}
	return through.RoundTrip(r)
}

// post sends a command and returns its answer.
func (f *fetch) post(body []byte) (io.ReadCloser, error) {
	at := *f.base
	at.Path, at.RawPath = f.base.Path+"/"+service, ""
	reply, err := f.send(http.MethodPost, &at, body)
	if err != nil {
		return nil, err
	}
	if err := f.checked(reply, "application/x-"+service+"-result"); err != nil {
		_ = reply.Body.Close()
		return nil, err
	}
	return reply.Body, nil
}

// checked returns the error of a response that is not git's.
func (f *fetch) checked(reply *http.Response, kind string) error {
	if reply.StatusCode != http.StatusOK {
		return f.explainStatus(reply.StatusCode)
	}
	if got := reply.Header.Get("Content-Type"); got != kind {
		return notGit(f.src)
	}
	return nil
}

// advertised reads what the server can do.
func (f *fetch) advertised(reply *http.Response) error {
	if err := f.checked(reply, "application/x-"+service+"-advertisement"); err != nil {
		return err
	}
	lines := &reader{in: &limited{reply.Body, maxRefs}}
	two := false
	for {
		l, err := lines.next()
		if errors.Is(err, io.EOF) {
			return notGit(f.src)
		}
		if err != nil {
			return err
		}
		text := l.text()
		if format, ok := strings.CutPrefix(text, "object-format="); ok && format != "sha1" {
			return fault.New(fault.Unprocessable, "The repository on %s has the object format %.20q, but only sha1 can be "+
				"deployed", hostOf(f.src), format)
		}
		two = two || text == "version 2"
		if l.kind == flush && two {
			return nil
		}
		if l.kind == data && !two && !strings.HasPrefix(text, "# service=") {
			return fault.New(fault.Unprocessable, "The git server %s does not speak version 2 of git's protocol: use a newer "+
				"one, or push with git push", hostOf(f.src))
		}
	}
}

// resolve returns the commit of the branch.
func (f *fetch) resolve() (commit gitpack.Hash, err error) {
	names := []string{"HEAD"}
	if b := f.src.Branch; b != "" {
		names = []string{"refs/heads/" + b, "refs/tags/" + b}
	}
	body := []byte(pkt("command=ls-refs\n") + delimLine + pkt("peel\n"))
	for _, name := range names {
		body = append(body, pkt("ref-prefix "+name+"\n")...)
	}
	answer, err := f.post(append(body, flushLine...))
	if err != nil {
		return commit, err
	}
	defer answer.Close()
	found := map[string]gitpack.Hash{}
	lines := &reader{in: &limited{answer, maxRefs}}
	for {
		l, err := lines.next()
		if err != nil {
			return commit, err
		}
		if l.kind == flush {
			break
		}
		fields := strings.Fields(l.text())
		if len(fields) < 2 {
			continue
		}
		hash, ok := gitpack.ParseHash(fields[0])
		for _, more := range fields[2:] {
			if peeled, is := strings.CutPrefix(more, "peeled:"); is {
				hash, ok = gitpack.ParseHash(peeled)
			}
		}
		if ok && !hash.IsZero() {
			found[fields[1]] = hash
		}
	}
	for _, name := range names {
		if hash, ok := found[name]; ok {
			return hash, nil
		}
	}
	if f.src.Branch == "" {
		return commit, fault.New(fault.Unprocessable, "The repository on %s is empty: push a commit to it first",
			hostOf(f.src))
	}
	return commit, fault.New(fault.Unprocessable, "The repository on %s has no branch or tag %s: check its name, or "+
		"leave it empty for the default branch", hostOf(f.src), f.src.Branch)
}

// pack fetches a commit without its history.
func (f *fetch) pack(commit gitpack.Hash, into *gitpack.Objects) error {
	body := pkt("command=fetch") + delimLine + pkt("no-progress\n") + pkt("ofs-delta\n") +
		pkt("deepen 1\n") + pkt(fmt.Sprintf("want %s\n", commit)) + pkt("done\n") + flushLine
	answer, err := f.post([]byte(body))
	if err != nil {
		return err
	}
	defer answer.Close()
	// Lines and messages take little beside the pack, whose bytes package gitpack limits.
	lines := &reader{in: &limited{answer, 2*f.config.MaxBytes + maxRefs}}
	for {
		l, err := lines.next()
		if err != nil {
			return err
		}
		if l.kind == flush {
			return errProtocol
		}
		if l.text() == "packfile" {
			return into.Read(&pack{lines: lines})
		}
	}
}
