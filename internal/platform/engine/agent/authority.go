package agent

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"

	"ingot/internal/platform/instance/agentproto"
)

const (
	authorityTime = 20 * 365 * 24 * time.Hour
	clientTime    = 24 * time.Hour
	// skew is how much the clocks of servers and nodes may differ.
	skew = time.Hour
)

// Authority is the certificate authority of an installation. Agents obey clients with its
// certificates.
type Authority struct {
	key  ed25519.PrivateKey
	cert *x509.Certificate
}

// NewAuthority creates an authority.
func NewAuthority() (*Authority, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Ingot agents"},
		NotBefore: now.Add(-skew), NotAfter: now.Add(authorityTime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{key, cert}, err
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

// ParseAuthority returns the authority that Bytes has written.
func ParseAuthority(b []byte) (*Authority, error) {
	if len(b) <= ed25519.SeedSize {
		return nil, errors.New("authority of agents: too short")
	}
	key := ed25519.NewKeyFromSeed(b[:ed25519.SeedSize])
	cert, err := x509.ParseCertificate(b[ed25519.SeedSize:])
	if err != nil {
		return nil, fmt.Errorf("authority of agents: %w", err)
	}
	if public, ok := cert.PublicKey.(ed25519.PublicKey); !ok || !public.Equal(key.Public()) {
		return nil, errors.New("authority of agents: key and certificate do not belong together")
	}
	return &Authority{key, cert}, nil
}

// Bytes returns the authority with its private key, which the caller has to encrypt.
func (a *Authority) Bytes() []byte { return append(a.key.Seed(), a.cert.Raw...) }

// Certificate returns the authority's own certificate in DER. It is public.
func (a *Authority) Certificate() []byte { return a.cert.Raw }

// Client returns a new key with a certificate for a server, valid for a day.
func (a *Authority) Client(name string) (tls.Certificate, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-skew), NotAfter: now.Add(clientTime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// Keys are what servers and agents of an installation recognize each other by: agents
// obey clients of the authority, and prove that they have a seed of the key. A rotation
// adds new ones; instances keep those that they were started with.
type Keys struct {
	Authority *Authority
	Key       []byte
}

// NewKeys creates keys.
func NewKeys() (Keys, error) {
	a, err := NewAuthority()
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return Keys{a, key}, err
}

// ID returns a name for the keys, which is public.
func (k Keys) ID() string {
	mac := hmac.New(sha256.New, k.Key)
	mac.Write([]byte("keys"))
	return hex.EncodeToString(mac.Sum(nil)[:6])
}

// Seed returns the seed of an agent's key. Every server with the installation's key can
// compute it, so it is not stored.
func Seed(installKey []byte, instance string) [ed25519.SeedSize]byte {
	mac := hmac.New(sha256.New, installKey)
	mac.Write([]byte("agent of " + instance))
	return [ed25519.SeedSize]byte(mac.Sum(nil))
}

// PublicKey returns the key that an agent with this seed proves to have.
func PublicKey(seed [ed25519.SeedSize]byte) ed25519.PublicKey {
	return ed25519.PublicKey(ed25519.NewKeyFromSeed(seed[:])[ed25519.SeedSize:])
}

// Environment returns the environment of an agent without its address,
// agentproto.EnvIP. ca is the certificate of the Authority, or several one after another.
func Environment(instance string, seed [ed25519.SeedSize]byte, ca []byte) map[string]string {
	return map[string]string{
		agentproto.EnvInstance: instance,
		agentproto.EnvSeed:     base64.StdEncoding.EncodeToString(seed[:]),
		agentproto.EnvCA:       base64.StdEncoding.EncodeToString(ca),
	}
}
