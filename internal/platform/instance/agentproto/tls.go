package agentproto

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// ErrWrongAgent means that another agent than the expected one answered, or none: the
// address may belong to another instance now.
var ErrWrongAgent = errors.New("another agent answers")

// alpn separates this protocol from everything else that might use the certificates.
const alpn = "ingot-agent"

// ServerConfig returns the TLS configuration of an agent: its key is derived from the seed,
// and its clients have certificates of one of the authorities, which are DER, one after
// another.
func ServerConfig(seed [ed25519.SeedSize]byte, authorities []byte) (*tls.Config, error) {
	certificates, err := x509.ParseCertificates(authorities)
	if err != nil {
		return nil, fmt.Errorf("certificate of the authority: %w", err)
	}
	if len(certificates) == 0 {
		return nil, errors.New("certificate of the authority: none given")
	}
	pool := x509.NewCertPool()
	for _, c := range certificates {
		pool.AddCert(c)
	}
	key := ed25519.NewKeyFromSeed(seed[:])
	// Clients compare the key only.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: alpn},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{alpn},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: pool,
		SessionTicketsDisabled: true,
	}, nil
}

// ClientConfig returns the TLS configuration of a server for an agent with this key.
func ClientConfig(own tls.Certificate, agent ed25519.PublicKey) *tls.Config {
	return &tls.Config{
		// Not the first matching certificate by the authorities the agent names, but always
		// this one.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil },
		MinVersion:           tls.VersionTLS13,
		NextProtos:           []string{alpn},
		// The agent's key is known, so no authority is needed.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the key
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || s.NegotiatedProtocol != alpn {
				return ErrWrongAgent
			}
			key, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
			if !ok || len(agent) != ed25519.PublicKeySize || !key.Equal(agent) {
				return ErrWrongAgent
			}
			return nil
		},
	}
}
