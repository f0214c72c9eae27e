package dkim

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"runtime"

	"github.com/emersion/go-msgauth/dkim"

	"ingot/internal/notify/mail/address"
	"ingot/internal/notify/mail/compose"
)

// headers are signed whether or not they are present: absent ones cannot be
// added later. Those listed twice cannot be added a second time either.
var headers = []string{
	"From", "From", "Reply-To", "Reply-To", "To", "To", "Cc", "Subject", "Subject", "Date", "Date", "Message-ID",
	"Message-ID",
	"MIME-Version", "MIME-Version", "Content-Type", "Content-Type", "Content-Transfer-Encoding",
	"Content-Transfer-Encoding",
	"Auto-Submitted", "List-Unsubscribe", "List-Unsubscribe", "List-Unsubscribe-Post", "List-Unsubscribe-Post",
	"List-Id", "List-Id",
	"References", "References", "In-Reply-To", "In-Reply-To", "X-CF-Client-ID", "X-CF-Notification-ID",
}

// Signer signs for one domain. It is safe for concurrent use; at most one
// goroutine per core signs at a time, because RSA takes a millisecond and would
// block everything else.
type Signer struct {
	options dkim.SignOptions
	slots   chan struct{}
}

// New returns a Signer with an RSA or Ed25519 key in PEM. Errors do not contain
// the key.
func New(domain, selector string, key []byte) (*Signer, error) {
	for what, name := range map[string]string{"domain": domain, "selector": selector} {
		if _, err := address.Parse("x@" + name); err != nil {
			return nil, fmt.Errorf("the DKIM %s %q is not a domain name", what, name)
		}
	}
	private, err := parseKey(key)
	if err != nil {
		return nil, fmt.Errorf("the DKIM key: %w", err)
	}
	return &Signer{
		options: dkim.SignOptions{
			Domain: address.Domain("x@" + domain), Selector: selector, Signer: private,
			HeaderCanonicalization: dkim.CanonicalizationRelaxed,
			BodyCanonicalization:   dkim.CanonicalizationRelaxed,
			HeaderKeys:             headers,
		},
		slots: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}, nil
}

func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("not in PEM format (-----BEGIN PRIVATE KEY-----)")
	}
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("found a %q, want a private key without a passphrase", block.Type)
	}
	if err != nil {
		return nil, errors.New("invalid private key")
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if k.N.BitLen() < 1024 {
			return nil, fmt.Errorf("receivers reject RSA keys of %d bits, use 2048", k.N.BitLen())
		}
		return k, nil
	case ed25519.PrivateKey:
		return k, nil
	}
	return nil, fmt.Errorf("a %T cannot be used for DKIM, which supports RSA and Ed25519", key)
}

// Record returns the domain and the selector of signatures, and the record that the DNS has to
// have for them.
func (s *Signer) Record() (domain, selector, record string) {
	var kind string
	var public []byte
	switch key := s.options.Signer.Public().(type) {
	case ed25519.PublicKey:
		kind, public = "ed25519", key
	case *rsa.PublicKey:
		kind = "rsa"
		public, _ = x509.MarshalPKIXPublicKey(key) // it was parsed
	}
	return s.options.Domain, s.options.Selector,
		"v=DKIM1; k=" + kind + "; p=" + base64.StdEncoding.EncodeToString(public)
}

// Sign prepends the signature to the message's header.
func (s *Signer) Sign(m *compose.Message) error {
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	signer, err := dkim.NewSigner(&s.options)
	if err != nil {
		return fmt.Errorf("DKIM: %w", err)
	}
	for _, part := range m.Parts() {
		if _, err := signer.Write(part); err != nil {
			_ = signer.Close()
			return fmt.Errorf("DKIM: %w", err)
		}
	}
	if err := signer.Close(); err != nil {
		return fmt.Errorf("DKIM: %w", err)
	}
	signature := []byte(signer.Signature())
	if bytes.HasPrefix(signature, []byte(".")) || !bytes.HasSuffix(signature, []byte("\r\n")) {
		return errors.New("DKIM: the signature is not a header")
	}
	m.Header = append(signature, m.Header...)
	return nil
}
