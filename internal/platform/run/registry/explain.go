package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"ingot/internal/base/fault"
	"ingot/internal/base/safedial"
	"ingot/internal/platform"
)

// mostPorts is how many ports of an image are used.
const mostPorts = 10

// tcpPort returns the port of an entry such as 80/tcp; the protocol is tcp if there
// is none.
func tcpPort(exposed string) (int, bool) {
	number, protocol, _ := strings.Cut(exposed, "/")
	n, err := strconv.Atoi(number)
	return n, err == nil && n > 0 && n <= 65535 && (protocol == "" || strings.EqualFold(protocol, "tcp"))
}

// explain returns an error that says what to do. Its cause is for the operator.
func (c *Client) explain(ctx context.Context, err error, src platform.ImageSource, ref name.Reference) error {
	var known *fault.Error
	if ctx.Err() != nil || errors.As(err, &known) {
		return err
	}
	registry := ref.Context().RegistryStr()
	because := func(code fault.Code, format string, args ...any) error {
		return fault.Wrap(err, code, format, args...)
	}
	var answered *transport.Error
	if errors.As(err, &answered) {
		return explainStatus(answered, src, registry, because)
	}
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		unknown   *net.DNSError
	)
	switch {
	case errors.Is(err, safedial.ErrPrivate):
		return because(fault.Unprocessable,
			"The registry %s, or a server that it names, has an address in a private network or on this machine: an operator "+
				"can allow it with --allow-networks", registry)
	case errors.Is(err, errPlain), errors.As(err, &record),
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return because(fault.Unprocessable,
			"The registry %s, or a server that it names, does not use TLS: give it a certificate, or ask an operator to allow "+
				"it with --insecure-registries %s", registry, registry)
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid):
		return because(fault.Unprocessable,
			"The certificate of the registry %s is not valid: use one of an authority that the server's system knows, for "+
				"this name, that has not expired", registry)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return because(fault.Unprocessable, "The registry %s is not known: check the name in %s", registry, src.Reference)
	case errors.Is(err, errTooLarge):
		return because(fault.Unprocessable,
			"The registry %s describes the image %s with more than %d MB, which no image needs", registry, src.Reference,
			mostManifest>>20)
	case errors.Is(err, errLonger), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "error verifying"):
		return because(fault.Unprocessable,
			"The registry %s sent data that is not what the image %s says: try again, and push the image again if that does "+
				"not help", registry, src.Reference)
	case errors.Is(err, syscall.ECONNREFUSED), isNetwork(err):
		return because(fault.Unprocessable,
			"The registry %s cannot be reached: check the name in %s and that the registry runs, and try again", registry,
			src.Reference)
	}
	return because(fault.Unprocessable,
		"The image %s could not be read from the registry %s: it is not what a registry should send; the server's log says "+
			"more", src.Reference, registry)
}

func isNetwork(err error) bool {
	var n net.Error
	return errors.As(err, &n) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

func explainStatus(e *transport.Error, src platform.ImageSource, registry string, because func(fault.Code, string,
	...any) error) error {
	switch status := e.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		if src.Username == "" {
			return because(fault.Unprocessable,
				"The registry %s denies anonymous access to the image %s, or it does not exist: check its name, "+
					"or give the credentials with --docker-username and the environment variable CF_DOCKER_PASSWORD", registry,
				src.Reference)
		}
		return because(fault.Unprocessable,
			"The registry %s denies the user %s access to the image %s, or it does not exist: check its name, "+
				"--docker-username and the environment variable CF_DOCKER_PASSWORD", registry, src.Username, src.Reference)
	case status == http.StatusNotFound:
		return because(fault.Unprocessable,
			"The image %s does not exist in the registry %s, or the registry no longer has all of it: check its name and tag, "+
				"and push it again", src.Reference, registry)
	case status == http.StatusTooManyRequests:
		return because(fault.Unprocessable,
			"The registry %s accepts no more requests for now: try again later, or with the credentials of an account "+
				"(--docker-username, CF_DOCKER_PASSWORD)", registry)
	case status >= http.StatusInternalServerError:
		return because(fault.Unprocessable, "The registry %s does not work at the moment (status %d): try again later",
			registry, status)
	}
	return because(fault.Unprocessable, "The registry %s refuses to send the image %s (status %d)", registry,
		src.Reference, e.StatusCode)
}
