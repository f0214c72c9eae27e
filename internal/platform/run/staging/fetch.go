package staging

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/safedial"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/run/staging/lifecycle"
	"ingot/internal/platform/storage/archive"
)

// custom fetches a buildpack from a URL: a zip file, or a git repository, with the
// branch or tag after a '#'. The server fetches it, because the instance may have no
// network; so the addresses are restricted.
func (s *Stager) custom(ctx context.Context, name string, log LogFunc, c *converter, scratch string) (chosen, error) {
	u, err := url.Parse(name)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return chosen{}, failure(StagingError,
			"The buildpack %s is not a valid URL: it has to begin with https:// (or http://) and name a zip file or a git "+
				"repository", platform.Redacted(name))
	}
	shown := platform.Redacted(name)
	say(log, "Downloading %s...", shown)
	ctx, cancel := context.WithTimeout(ctx, s.config.FetchTimeout)
	defer cancel()
	var open func() (io.ReadCloser, error)
	var key string
	if strings.HasSuffix(u.Path, ".zip") {
		open, key, err = s.download(ctx, u, c, scratch)
	} else {
		open, key, err = s.clone(ctx, u, scratch)
	}
	if err != nil {
		var known *Failure
		if errors.As(err, &known) {
			return chosen{}, err
		}
		if ctx.Err() != nil && context.Cause( //nolint:errorlint // the cause itself, not a wrapped one
			ctx) == context.DeadlineExceeded {
			err = fmt.Errorf("it took longer than %s", s.config.FetchTimeout)
		}
		return chosen{}, failure(StagingError,
			"The buildpack %s could not be fetched: %s. The server needs to reach that address; if it cannot, upload the "+
				"buildpack with cf create-buildpack", shown, err)
	}
	say(log, "Downloaded %s", shown)
	return chosen{
		lifecycle.Buildpack{Name: shown, Key: key, Custom: true},
		engine.Archive{Key: key, Open: open, ReadOnly: true},
	}, nil
}

var errPrivate = errors.New("it has an address of this machine or of a private network, from which this server does " +
	"not fetch")

// permitted reports whether a buildpack may be fetched from an address. Without this
// check every user who can push could reach internal targets, such as the server's
// own administration or a cloud's metadata service.
func (s *Stager) permitted(ip netip.Addr) bool {
	return s.config.PrivateFetch || safedial.Guard{}.Permits(ip)
}

// client returns an HTTP client for URLs of users.
func (s *Stager) client() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if !s.permitted(at.Addr()) {
			return errPrivate
		}
		return nil
	}}
	return &http.Client{Transport: &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute,
		DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, TLSClientConfig: s.config.TLS,
	}}
}

// download downloads a zip file into scratch.
func (s *Stager) download(ctx context.Context, u *url.URL, c *converter, scratch string) (func() (io.ReadCloser, error),
	string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, "", err
	}
	res, err := s.client().Do(req)
	if err != nil {
		return nil, "", plain(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("it answers %s", res.Status)
	}
	f, err := os.CreateTemp(scratch, "buildpack-*.zip")
	if err != nil {
		return nil, "", err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(res.Body, s.config.MaxBuildpack+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, "", plain(err)
	}
	if n > s.config.MaxBuildpack {
		return nil, "", fmt.Errorf("it is larger than %d MB", s.config.MaxBuildpack>>20)
	}
	zip := diskZip(f.Name())
	open := func() (io.ReadCloser, error) { return c.openBuildpack(context.WithoutCancel(ctx), zip) }
	return open, "buildpack-" + hex.EncodeToString(sum.Sum(nil)), nil
}

// plain removes the URL, with its credentials, from an error of the HTTP client.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// clone clones a git repository into scratch, without history and submodules.
func (s *Stager) clone(ctx context.Context, u *url.URL, scratch string) (func() (io.ReadCloser, error), string, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, "", errors.New("it is a git repository, and git is not installed on the server")
	}
	ref := u.Fragment
	if strings.HasPrefix(ref, "-") {
		return nil, "", fmt.Errorf("%q is not a branch or tag", ref)
	}
	pin, err := s.pin(ctx, u)
	if err != nil {
		return nil, "", err
	}
	dir, err := os.MkdirTemp(scratch, "git-")
	if err != nil {
		return nil, "", err
	}
	bare := *u
	bare.Fragment = ""
	args := []string{
		"-c", "protocol.allow=never", "-c", "protocol." + u.Scheme + ".allow=always", "-c", "http.followRedirects=false",
		"-c", "http.curloptResolve=" + pin, "-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=true",
		"clone", "--quiet", "--depth=1", "--no-tags", "--single-branch",
	}
	if ref != "" {
		args = append(args, "--branch="+ref)
	}
	repo := filepath.Join(dir, "repo")
	args = append(args, "--", bare.String(), repo)
	if err := s.git(ctx, git, dir, args...); err != nil {
		return nil, "", err
	}
	if err := os.RemoveAll(filepath.Join(repo, ".git")); err != nil {
		return nil, "", err
	}
	sum := sha256.New()
	if err := archive.Tar(sum, repo, archive.TarOptions{Modified: time.Unix(1, 0)}); err != nil {
		return nil, "", err
	}
	open := func() (io.ReadCloser, error) {
		pr, pw := io.Pipe()
		background.Feed("staging files", pw,
			func() error { return archive.Tar(pw, repo, archive.TarOptions{Modified: time.Unix(1, 0)}) })
		return pr, nil
	}
	return open, "buildpack-" + hex.EncodeToString(sum.Sum(nil)), nil
}

// pin resolves the host of a URL once, so that git connects to the address that was
// checked. The result has the format of curl's --resolve: host:port:address.
func (s *Stager) pin(ctx context.Context, u *url.URL) (string, error) {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return "", fmt.Errorf("the host %s is not known", u.Hostname())
	}
	for _, a := range addresses {
		if s.permitted(a) {
			text := a.Unmap().String()
			if a.Unmap().Is6() {
				text = "[" + text + "]"
			}
			return u.Hostname() + ":" + port + ":" + text, nil
		}
	}
	return "", errPrivate
}

// git runs git without any configuration, and kills it when it writes too much.
func (s *Stager) git(ctx context.Context, git, dir string, args ...string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, git, args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_LFS_SKIP_SMUDGE=1",
		"GIT_HTTP_LOW_SPEED_LIMIT=1000", "GIT_HTTP_LOW_SPEED_TIME=30",
	}
	if s.config.CAFile != "" {
		cmd.Env = append(cmd.Env, "GIT_SSL_CAINFO="+s.config.CAFile)
	}
	var complaint tail
	cmd.Stderr = &complaint
	cmd.WaitDelay = 5 * time.Second
	errTooLarge := fmt.Errorf("it is larger than %d MB", s.config.MaxBuildpack>>20)
	watched := make(chan struct{})
	background.Go("staging fetch", func() {
		defer close(watched)
		for range background.Ticks(ctx, 500*time.Millisecond, nil) {
			if sizeOf(dir) > 2*s.config.MaxBuildpack {
				cancel(errTooLarge)
			}
		}
	})
	err := cmd.Run()
	cause := context.Cause(ctx)
	cancel(nil)
	<-watched
	switch {
	case errors.Is(cause, errTooLarge):
		return errTooLarge
	case err != nil && cause != nil:
		return cause
	case err != nil:
		return fmt.Errorf("git says: %s", complaint.line())
	case sizeOf(dir) > 2*s.config.MaxBuildpack:
		return errTooLarge
	}
	return nil
}

func sizeOf(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e == nil {
			return nil //nolint:nilerr // git moves its files about
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// tail keeps the end of a program's output.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > 4096 {
		t.b = t.b[len(t.b)-4096:]
	}
	return len(p), nil
}

// line returns the last line that is not empty, for a message. Git prints the URL,
// but never the password in it.
func (t *tail) line() string {
	lines := strings.Split(strings.TrimSpace(string(t.b)), "\n")
	text := strings.ToValidUTF8(lines[len(lines)-1], "")
	if len(text) > 300 {
		text = text[:300]
	}
	return text
}
