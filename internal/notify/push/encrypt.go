package push

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	// recordSize is that of the one record of a body, and what every push service takes at least.
	recordSize = 4096
	saltSize   = 16
	// headerSize is that of salt, record size, length of the key, and key.
	headerSize = saltSize + 4 + 1 + 65
	// MaxPlain is the longest message: a body has also a header, the end of the message and the tag of the cipher.
	MaxPlain = recordSize - headerSize - 1 - 16
	lastMark = 2 // ends the message in the last record
)

// Encrypt encrypts a message for a browser's public key and shared secret, as RFC 8291 says: with the content encoding
// aes128gcm of RFC 8188, in one record.
func Encrypt(plain, p256dh, auth []byte) ([]byte, error) {
	own, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return encrypt(plain, p256dh, auth, own, rand.Reader)
}

func encrypt(plain, p256dh, auth []byte, own *ecdh.PrivateKey, random io.Reader) ([]byte, error) {
	if len(plain) > MaxPlain {
		return nil, fmt.Errorf("the message has %d bytes, at most %d are allowed", len(plain), MaxPlain)
	}
	browser, err := ecdh.P256().NewPublicKey(p256dh)
	if err != nil {
		return nil, fmt.Errorf("the browser's key: %w", err)
	}
	shared, err := own.ECDH(browser)
	if err != nil {
		return nil, fmt.Errorf("the browser's key: %w", err)
	}
	sender := own.PublicKey().Bytes()
	info := "WebPush: info\x00" + string(p256dh) + string(sender)
	input, err := hkdf.Key(sha256.New, shared, auth, info, sha256.Size)
	if err != nil {
		return nil, err
	}
	body := make([]byte, saltSize, recordSize)
	if _, err := io.ReadFull(random, body); err != nil {
		return nil, err
	}
	derived, err := hkdf.Extract(sha256.New, input, body)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Expand(sha256.New, derived, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Expand(sha256.New, derived, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	sealer, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	body = binary.BigEndian.AppendUint32(body, recordSize)
	body = append(append(body, byte(len(sender))), sender...)
	return sealer.Seal(body, nonce, append(append([]byte{}, plain...), lastMark), nil), nil
}
