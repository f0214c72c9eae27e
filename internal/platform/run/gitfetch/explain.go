package gitfetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/safedial"
	"ingot/internal/platform"
	"ingot/internal/platform/storage/gitpack"
)

// hostOf returns the host of a source, for messages.
func hostOf(src *platform.GitSource) string {
	if u, err := url.Parse(src.URL); err == nil {
		return u.Host
	}
	return "of the address"
}

func notGit(src *platform.GitSource) error {
	return fault.New(fault.Unprocessable, "The address on %s is not that of a git repository: use the one that git clone "+
		"uses, with https://", hostOf(src))
}

// explainStatus returns the error for a response that is not 200.
func (f *fetch) explainStatus(status int) error {
	host, has := hostOf(f.src), f.src.Password != ""
	switch {
	case (status == http.StatusUnauthorized || status == http.StatusForbidden) && has:
		return fault.New(fault.Unprocessable, "The git server %s refuses the user name and the token (status %d): check "+
			"that they are right, have not expired and may read the repository", host, status)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fault.New(fault.Unprocessable, "The git server %s requires a user name and a token (status %d): the "+
			"repository is private, or its address is wrong", host, status)
	case status == http.StatusNotFound, status == http.StatusGone:
		return fault.New(fault.Unprocessable, "The git server %s has no such repository (status %d): check the address, and "+
			"the user name and the token if it is private", host, status)
	case status == http.StatusTooManyRequests, status >= 500:
		return fault.New(fault.BadGateway, "The git server %s cannot answer at the moment (status %d): try again later",
			host, status)
	}
	return fault.New(fault.Unprocessable, "The git server %s answers with status %d, which is not that of a git "+
		"repository: check the address", host, status)
}

// explain returns an error that says what to do. Its cause is for the operator; errors of packages that name the
// address have no credentials, because the address has none.
func (f *fetch) explain(err error) error {
	host := hostOf(f.src)
	because := func(code fault.Code, format string, args ...any) error {
		return fault.Wrap(err, code, format, args...)
	}
	var known *fault.Error
	if errors.As(err, &known) {
		if known.Code == fault.TooLarge {
			return because(fault.TooLarge, "The commit is larger than the limit of %d MB, or has too many files: remove what "+
				"the app does not need from the repository", f.config.MaxBytes>>20)
		}
		return err
	}
	var (
		missing   *gitpack.MissingError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		unknown   *net.DNSError
		network   net.Error
		local     *fs.PathError
	)
	switch {
	case errors.Is(err, safedial.ErrPrivate):
		return because(fault.Unprocessable, "The git server %s, or one that it redirects to, has an address in a private "+
			"network or on this machine: an operator can allow it with --allow-networks", host)
	case errors.Is(err, errPlain):
		return because(fault.Unprocessable, "The address of the repository on %s is without TLS, which is possible only in "+
			"networks that an operator allows with --allow-networks: use https://", host)
	case errors.Is(err, errTooLong):
		return because(fault.TooLarge, "The git server %s sends more than %d MB: remove what the app does not need from the "+
			"repository", host, f.config.MaxBytes>>20)
	case errors.As(err, &missing), errors.Is(err, errProtocol), errors.Is(err, errServer), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF):
		return because(fault.Unprocessable, "The git server %s does not send what git's protocol requires: try again, and "+
			"check that git clone works with this address", host)
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return because(fault.Unprocessable, "The git server %s does not use TLS: check the address", host)
	case errors.As(err, &authority), errors.As(err, &name), errors.As(err, &invalid):
		return because(fault.Unprocessable, "The certificate of the git server %s is not valid: it has expired, is for "+
			"another name, or is from an authority that the platform's server does not know", host)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return because(fault.Unprocessable, "The git server %s is not known: check the name in the address", host)
	case errors.Is(f.ctx.Err(), context.DeadlineExceeded):
		return because(fault.BadGateway, "The git server %s did not send the commit within %v: try again later", host,
			f.config.Timeout)
	case f.ctx.Err() != nil:
		return err
	case errors.As(err, &network):
		return because(fault.BadGateway, "The git server %s cannot be reached: check the address and that the server runs, "+
			"and try again", host)
	case errors.As(err, &local):
		return err
	}
	// Such as a response that is not HTTP: the server decides what it sends, and an error of this server would be tried
	// again without end.
	return because(fault.BadGateway, "The git server %s sends what cannot be read: check the address, and try again", host)
}
