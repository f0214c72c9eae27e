package apps

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"ingot/internal/base/background"
	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/console/page"
)

// A shell is an ssh session of the user like any other: the console gets a one-time code with
// the user's token and logs in at the gateway, which decides, counts, and records the audit
// events.

// gatewayClient is the client that one-time codes are issued for, as for cf ssh.
const gatewayClient = "ssh-proxy"

// oneTimeCode returns a code for the gateway.
func oneTimeCode(c *page.Caller) (string, error) {
	q := url.Values{"response_type": {"code"}, "grant_type": {"authorization_code"}, "client_id": {gatewayClient}}
	to, err := c.Redirected("/oauth/authorize?" + q.Encode())
	if err != nil {
		return "", err
	}
	if code := to.Get("code"); code != "" {
		return code, nil
	}
	return "", fault.New(fault.Forbidden, "The authorization server issued no one-time code: %.200s",
		to.Get("error_description"))
}

// address is the address of a browser.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// logIn connects to an instance. What the gateway says of a refusal is the error.
func (c *pages) logIn(ctx context.Context, r *http.Request, s *page.Session, app, kind string,
	index int) (*ssh.Client, error) {
	r = r.WithContext(ctx)
	call := c.Platform(r, s)
	var target cfapi.Process
	var root struct {
		Links map[string]*struct {
			Meta struct {
				Fingerprint string `json:"host_key_fingerprint"`
			} `json:"meta"`
		} `json:"links"`
	}
	err := page.Together(
		func() error {
			return call.Get(&target, "/v3/apps/"+url.PathEscape(app)+"/processes/"+url.PathEscape(kind), nil)
		},
		func() error { return call.Get(&root, "/", nil) },
	)
	if err != nil {
		return nil, err
	}
	link := root.Links["app_ssh"]
	if link == nil || c.Options.Gateway == nil {
		return nil, fault.New(fault.Unavailable, "This server has no ssh gateway.")
	}
	code, err := oneTimeCode(c.Auth(r, s))
	if err != nil {
		return nil, err
	}
	conn, err := c.Options.Gateway(address(c.Browser(r)))
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "The ssh gateway does not answer. Try again in a moment.")
	}
	stop := background.OnDone(ctx, "console shell", func() { _ = conn.Close() })
	defer stop()
	said := ""
	client, channels, requests, err := ssh.NewClientConn(conn, "gateway", &ssh.ClientConfig{
		User: "cf:" + target.GUID + "/" + strconv.Itoa(index), Auth: []ssh.AuthMethod{ssh.Password(code)},
		Timeout:        time.Minute,
		BannerCallback: func(text string) error { said = text; return nil },
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if got := strings.TrimPrefix(ssh.FingerprintSHA256(key), "SHA256:"); got != link.Meta.Fingerprint {
				return fmt.Errorf("the host key is %s, and not %s", got, link.Meta.Fingerprint)
			}
			return nil
		},
	})
	if err != nil {
		_ = conn.Close()
		return nil, refusal(err, said)
	}
	return ssh.NewClient(client, channels, requests), nil
}

// refusal returns the error of a login that the gateway refused, perhaps with a reason.
func refusal(err error, said string) error {
	var denied *ssh.ServerAuthError
	if reason := strings.TrimSpace(strings.TrimPrefix(said, "refused:")); reason != "" {
		return fault.Wrap(err, fault.Forbidden, "The shell was refused: %s.", reason)
	}
	if errors.As(err, &denied) || strings.Contains(err.Error(), "unable to authenticate") {
		return fault.Wrap(err, fault.Forbidden, "Permission denied: a shell needs the role of a space developer.")
	}
	return fault.Wrap(err, fault.Unavailable, "The ssh gateway does not answer. Try again in a moment.")
}
