package main

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// signer signs a release with one OpenPGP key. The key is RSA, which every version of apt,
// rpm and cosign verifies, and whose signatures are the same each time.
type signer struct {
	entity *openpgp.Entity
	key    *packet.PrivateKey // of the entity, or a subkey for signatures
	rsa    *rsa.PrivateKey
	config *packet.Config
}

const newKey = "create one with: gpg --quick-gen-key 'NAME <MAIL>' rsa4096 sign never, " +
	"and write it to a file with: gpg --export-secret-keys --armor MAIL"

// readKey reads a secret key. Signatures have the time of the release, or that of the key if
// it is newer.
func readKey(path, passphrase string, when time.Time) (*signer, error) {
	data, err := os.ReadFile(path) //nolint:gosec // named by the user
	if err != nil {
		return nil, fmt.Errorf("--signing-key: %w", err)
	}
	read := openpgp.ReadKeyRing
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN")) {
		read = openpgp.ReadArmoredKeyRing
	}
	ring, err := read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("--signing-key: %s is not an OpenPGP key: %w", path, err)
	}
	if len(ring) != 1 || ring[0].PrivateKey == nil {
		return nil, fmt.Errorf("--signing-key: %s must have one secret key, it has %d keys; %s", path, len(ring), newKey)
	}
	entity := ring[0]
	if err := entity.DecryptPrivateKeys([]byte(passphrase)); err != nil {
		return nil, fmt.Errorf("--signing-key: the passphrase in SIGNING_PASSPHRASE does not open %s: %w", path, err)
	}
	when = validFrom(entity, when)
	fixed := false
	s := &signer{entity: entity, config: &packet.Config{
		DefaultHash: crypto.SHA256, Time: func() time.Time { return when }, NonDeterministicSignaturesViaNotation: &fixed,
	}}
	key, ok := entity.SigningKey(when)
	if !ok {
		return nil, fmt.Errorf("--signing-key: the key in %s cannot sign, or has expired; %s", path, newKey)
	}
	s.key = key.PrivateKey
	if s.rsa, ok = key.PrivateKey.PrivateKey.(*rsa.PrivateKey); !ok {
		return nil, fmt.Errorf("--signing-key: %s is not an RSA key; %s", path, newKey)
	}
	return s, nil
}

// validFrom returns when, or the time from which the key is valid.
func validFrom(e *openpgp.Entity, when time.Time) time.Time {
	later := func(t time.Time) {
		if t.After(when) {
			when = t
		}
	}
	later(e.PrimaryKey.CreationTime)
	for _, identity := range e.Identities {
		later(identity.SelfSignature.CreationTime)
	}
	for _, sub := range e.Subkeys {
		later(sub.Sig.CreationTime)
	}
	return when
}

// detached returns a binary signature.
func (s *signer) detached(data []byte) ([]byte, error) {
	var b bytes.Buffer
	err := openpgp.DetachSign(&b, s.entity, bytes.NewReader(data), s.config)
	return b.Bytes(), err
}

// armored returns a signature as text.
func (s *signer) armored(data []byte) ([]byte, error) {
	signature, err := s.detached(data)
	if err != nil {
		return nil, err
	}
	return armored(openpgp.SignatureType, signature)
}

// clear returns a text with its signature.
func (s *signer) clear(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := clearsign.Encode(&b, s.key, s.config)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	// The library leaves out the checksum of the signature, without which gpgv 2.2 complains.
	at := bytes.LastIndex(b.Bytes(), []byte("-----BEGIN PGP SIGNATURE-----"))
	block, err := armor.Decode(bytes.NewReader(b.Bytes()[at:]))
	if err != nil {
		return nil, err
	}
	signature, err := io.ReadAll(block.Body)
	if err != nil {
		return nil, err
	}
	end, err := armored(openpgp.SignatureType, signature)
	return append(b.Bytes()[:at], end...), err
}

// publicKey returns the public key for gpgv and apt, and as text for rpm.
func (s *signer) publicKey() (binary, text []byte, err error) {
	var b bytes.Buffer
	if err := s.entity.Serialize(&b); err != nil {
		return nil, nil, err
	}
	text, err = armored(openpgp.PublicKeyType, b.Bytes())
	return b.Bytes(), text, err
}

// publicPEM returns the public key for programs that verify envelopes, such as cosign.
func (s *signer) publicPEM() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(&s.rsa.PublicKey)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

func armored(kind string, data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := armor.Encode(&b, kind, nil)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(data)
	err = errors.Join(err, w.Close())
	return append(b.Bytes(), '\n'), err
}

// envelope is a DSSE envelope: https://github.com/secure-systems-lab/dsse
type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// envelope returns a signed document as JSON.
func (s *signer) envelope(kind string, document []byte) ([]byte, error) {
	sum := sha256.Sum256(preAuthentication(kind, document))
	signature, err := rsa.SignPKCS1v15(nil, s.rsa, crypto.SHA256, sum[:])
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(envelope{
		PayloadType: kind, Payload: base64.StdEncoding.EncodeToString(document),
		Signatures: []envelopeSignature{{
			KeyID: fmt.Sprintf("%X", s.key.Fingerprint), Sig: base64.StdEncoding.EncodeToString(signature),
		}},
	})
	return append(text, '\n'), err
}

// preAuthentication returns what an envelope's signature is of.
func preAuthentication(kind string, document []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(document), document)
}
