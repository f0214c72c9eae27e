package backup

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"
)

// SigningKeys prove that a server wrote a backup. The backup storage does not have them. Each
// belongs to one of the recipients, and is derived from that recipient's private key: anyone who can
// read a backup knows which signature it must have.
type SigningKeys []ed25519.PrivateKey

const (
	signingPrefix = "INGOT-SIGNING-KEY-"
	signerPrefix  = "ingot-signer-"
	// derivation separates the signing key from all other uses of a private key.
	derivation = "ingot backup signing key, version 1"
	// signedWords come before the manifest in what is signed.
	signedWords = "ingot backup manifest, version 1\n"
	// markSize is the size of the marks in the text of a key: of the recipient that it belongs
	// to, and of the text itself.
	markSize = 4
)

var keyText = base32.StdEncoding.WithPadding(base32.NoPadding)

// mark identifies a text.
func mark(text []byte) []byte {
	sum := sha256.Sum256(text)
	return sum[:markSize]
}

// parseText is the inverse of formatText.
func parseText(prefix, text string, size int) ([]byte, error) {
	raw, err := keyText.DecodeString(strings.ToUpper(strings.TrimPrefix(text, prefix)))
	if err != nil || len(raw) != size+markSize || formatText(prefix, raw[:size]) != text {
		// The text is not quoted: it may be a secret.
		return nil, fmt.Errorf("it is not of the form %s… or was not copied completely", prefix)
	}
	return raw[:size], nil
}

// formatText returns bytes as text that shows whether it was copied completely.
func formatText(prefix string, raw []byte) string {
	text := keyText.EncodeToString(slices.Concat(raw, mark(raw)))
	if prefix == signerPrefix {
		text = strings.ToLower(text)
	}
	return prefix + text
}

// ParseSigningKeys reads the signing keys of recipients, separated by commas, blanks or lines.
// Lines that begin with # are comments. A key that belongs to none of the recipients is refused:
// its signatures could not be verified.
func ParseSigningKeys(text string, to Recipients) (SigningKeys, error) {
	var keys SigningKeys
	for _, word := range keyWords(text) {
		raw, err := parseText(signingPrefix, word, ed25519.SeedSize+markSize)
		if err != nil {
			return nil, fmt.Errorf("the signing key: %w", err)
		}
		if !slices.ContainsFunc(to.names,
			func(name string) bool { return string(mark([]byte(name))) == string(raw[ed25519.SeedSize:]) }) {
			return nil,
				errors.New("the signing key belongs to another key than those of the recipients: anyone who restores the backup " +
					"could not verify it. " +
					"'ingot backup signing-key --key FILE' shows the one of a private key")
		}
		keys = append(keys, ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize]))
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no signing key")
	}
	return keys, nil
}

// own is the signing key that belongs to a private key.
type own struct {
	seed      []byte
	recipient string
}

// derive returns the signing keys that belong to private keys.
func (keys Identities) derive() (all []own, err error) {
	for _, one := range keys {
		var secret, recipient string
		switch one := one.(type) {
		case *age.X25519Identity:
			secret, recipient = one.String(), one.Recipient().String()
		case *age.HybridIdentity:
			secret, recipient = one.String(), one.Recipient().String()
		default:
			continue
		}
		seed, err := hkdf.Key(sha256.New, []byte(secret), nil, derivation, ed25519.SeedSize)
		if err != nil {
			return nil, err
		}
		all = append(all, own{seed, recipient})
	}
	return all, nil
}

// SigningKeys returns the texts of the signing keys that belong to private keys, and their
// public parts.
func (keys Identities) SigningKeys() (private, public []string, err error) {
	all, err := keys.derive()
	for _, one := range all {
		private = append(private, formatText(signingPrefix, slices.Concat(one.seed, mark([]byte(one.recipient)))))
		public = append(public, signerText(ed25519.NewKeyFromSeed(one.seed)))
	}
	return private, public, err
}

func signerText(key ed25519.PrivateKey) string {
	return formatText(signerPrefix, key.Public().(ed25519.PublicKey))
}

// signature is one of the signatures of a manifest, in signatureName.
type signature struct {
	Signer    string `json:"signer"`
	Signature []byte `json:"signature"`
}

// sign returns the signatures of a manifest.
func (s SigningKeys) sign(manifest []byte) ([]byte, error) {
	all := []signature{}
	for _, key := range s {
		all = append(all, signature{signerText(key), ed25519.Sign(key, slices.Concat([]byte(signedWords), manifest))})
	}
	return json.Marshal(all)
}

// Trust says with which keys backups are read, and whose are accepted.
type Trust struct {
	Keys Identities
	// Signers are public parts of signing keys, beside those that belong to Keys.
	Signers []string
	// AcceptUnsigned accepts a backup without a signature. One with another signature is still
	// refused.
	AcceptUnsigned bool
}

// ErrUnsigned means that a backup has no signature.
var ErrUnsigned = errors.New("the backup is not signed: anyone who knows the public key and can write there may have " +
	"made it. " +
	"If it was made by a server without a signing key and you know that it is yours, use --accept-unsigned. Nothing was " +
	"changed")

// signerError means that a backup was signed with other keys than those that are trusted.
type signerError struct{ Signers []string }

func (e *signerError) Error() string {
	return fmt.Sprintf("the backup was not signed with the signing key that belongs to this private key, but by %s: "+
		"someone else made it, "+
		"or a server of yours that has another key. If you know that key, name it with --signer. Nothing was changed",
		strings.Join(e.Signers, ", "))
}

// verify returns the key that signed a manifest; "" if it is not signed and that is accepted.
func (t Trust) verify(manifest, signatures []byte) (signer string, err error) {
	var all []signature
	if len(signatures) > 0 {
		if err := json.Unmarshal(signatures, &all); err != nil {
			return "", fmt.Errorf("%s: %w", signatureName, err)
		}
	}
	if len(all) == 0 {
		if !t.AcceptUnsigned {
			return "", &visitError{ErrUnsigned}
		}
		return "", nil
	}
	_, trusted, err := t.Keys.SigningKeys()
	if err != nil {
		return "", err
	}
	trusted = append(trusted, t.Signers...)
	others := &signerError{}
	for _, one := range all {
		key, err := parseText(signerPrefix, one.Signer, ed25519.PublicKeySize)
		if err != nil {
			return "", fmt.Errorf("%s: %w", signatureName, err)
		}
		if !slices.Contains(trusted, one.Signer) {
			others.Signers = append(others.Signers, one.Signer)
			continue
		}
		if !ed25519.Verify(key, slices.Concat([]byte(signedWords), manifest), one.Signature) {
			return "", errors.New("its signature is not of this manifest")
		}
		return one.Signer, nil
	}
	return "", &visitError{others}
}

// ParseSigners reads public parts of signing keys, separated by commas, blanks or lines.
func ParseSigners(text string) ([]string, error) {
	words := keyWords(text)
	for _, word := range words {
		if _, err := parseText(signerPrefix, word, ed25519.PublicKeySize); err != nil {
			return nil, err
		}
	}
	return words, nil
}
