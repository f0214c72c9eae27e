package smtp

import (
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // some servers offer only CRAM-MD5; it is used over TLS or loopback only
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// authenticate logs in. It never does so over an unencrypted connection, except
// on loopback.
func (c *conn) authenticate() error {
	local := false
	if tcp, ok := c.net.RemoteAddr().(*net.TCPAddr); ok {
		local = tcp.IP.IsLoopback()
	}
	if !c.encrypted && !local {
		return errors.New("the connection is not encrypted, and passwords are not sent in the clear: use smtps:// or " +
			"starttls=required")
	}
	mechanism := c.config.auth
	if mechanism == "" {
		order := slices.Clone(mechanisms)
		if !c.encrypted {
			slices.Reverse(order) // prefer the one that does not reveal the password
		}
		i := slices.IndexFunc(order, func(m string) bool { return slices.Contains(c.auth, m) })
		if i < 0 {
			return fmt.Errorf("no supported authentication mechanism: the server offers %q, supported are %s", c.auth,
				strings.Join(mechanisms, ", "))
		}
		mechanism = order[i]
	} else if !slices.Contains(c.auth, mechanism) {
		return fmt.Errorf("the server does not offer authentication by %s, only %q", mechanism, c.auth)
	}
	r, err := c.exchange(mechanism)
	if errors.Is(err, errGarbage) {
		return errors.New(c.hide(err.Error())) // it may contain the password
	}
	if err != nil {
		return err
	}
	if r.code != 235 {
		return fmt.Errorf("the server rejected the user name or password (%s): %s", mechanism, c.hide(r.String()))
	}
	return nil
}

func (c *conn) exchange(mechanism string) (reply, error) {
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	user, password := c.config.user, c.config.password
	switch mechanism {
	case "PLAIN":
		return c.command("AUTH PLAIN " + encode("\x00"+user+"\x00"+password))
	case "LOGIN":
		r, err := c.command("AUTH LOGIN")
		for _, answer := range []string{user, password} {
			if err != nil || r.code != 334 {
				return r, err
			}
			r, err = c.command(encode(answer))
		}
		return r, err
	default: // CRAM-MD5
		r, err := c.command("AUTH CRAM-MD5")
		if err != nil || r.code != 334 {
			return r, err
		}
		challenge, err := base64.StdEncoding.DecodeString(strings.Join(r.lines, ""))
		if err != nil {
			return r, fmt.Errorf("%w: the challenge of CRAM-MD5 is not base64", errGarbage)
		}
		mac := hmac.New(md5.New, []byte(password))
		mac.Write(challenge)
		return c.command(encode(user + " " + hex.EncodeToString(mac.Sum(nil))))
	}
}

// hide removes the password from a server's reply.
func (c *conn) hide(s string) string {
	for _, secret := range []string{
		c.config.password,
		base64.StdEncoding.EncodeToString([]byte(c.config.password)),
		base64.StdEncoding.EncodeToString([]byte("\x00" + c.config.user + "\x00" + c.config.password)),
	} {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "***")
		}
	}
	return s
}
