package mailtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"time"
)

type certificates struct{ server, client *tls.Config }

// Chain returns a new certificate for this machine with its key, in PEM.
func Chain() ([]byte, error) {
	c, err := newCertificates()
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(c.server.Certificates[0].PrivateKey)
	if err != nil {
		return nil, err
	}
	return append(
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificates[0].Certificate[0]})...,
	), nil
}

// newCertificates creates a self-signed certificate for this machine.
func newCertificates() (*certificates, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sink.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &certificates{
		server: &tls.Config{MinVersion: tls.VersionTLS12,
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		client: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool},
	}, nil
}

func (c *session) startTLS() error {
	if c.options.TLS != "starttls" || c.encrypted {
		return c.write("454 4.7.0 TLS not available\r\n")
	}
	if c.write("220 2.0.0 go ahead\r\n") != nil || c.w.Flush() != nil {
		return errEnd
	}
	if c.r.Buffered() > 0 {
		c.violation("something was sent between STARTTLS and the handshake")
		return errEnd
	}
	t := tls.Server(c.net, c.tls)
	if t.Handshake() != nil {
		return errEnd
	}
	c.net, c.encrypted = t, true
	c.buffer()
	c.clear()
	return nil
}

func (c *session) mechanisms() []string {
	if c.options.Mechanisms != nil {
		return c.options.Mechanisms
	}
	return []string{"PLAIN", "LOGIN", "CRAM-MD5"}
}

// auth handles AUTH with one of the mechanisms.
func (c *session) auth(line string) error {
	words := strings.Fields(line)
	if len(words) < 2 || !contains(c.mechanisms(), strings.ToUpper(words[1])) {
		return c.write("504 5.5.4 unknown mechanism\r\n")
	}
	var user string
	var ok bool
	switch strings.ToUpper(words[1]) {
	case "PLAIN":
		if len(words) < 3 {
			return c.write("501 5.5.4 initial response wanted\r\n")
		}
		parts := strings.Split(decode(words[2]), "\x00")
		if len(parts) == 3 {
			user = parts[1]
			ok = c.options.Users[user] == parts[2] && parts[2] != ""
		}
	case "LOGIN":
		name, err := c.challenge("Username:")
		if err != nil {
			return err
		}
		password, err := c.challenge("Password:")
		if err != nil {
			return err
		}
		user = name
		ok = c.options.Users[user] == password && password != ""
	default:
		challenge := "<" + hex.EncodeToString([]byte(time.Now().String())) + "@sink.test>"
		answer, err := c.challenge(challenge)
		if err != nil {
			return err
		}
		var digest string
		user, digest, _ = strings.Cut(answer, " ")
		mac := hmac.New(md5.New, []byte(c.options.Users[user]))
		mac.Write([]byte(challenge))
		ok = c.options.Users[user] != "" && digest == hex.EncodeToString(mac.Sum(nil))
	}
	if !ok {
		// The worst case: the reply repeats the credentials.
		return c.write("535 5.7.8 refused: " + strings.Join(words, " ") + " " + c.options.Users[user] + "\r\n")
	}
	c.user = user
	return c.write("235 2.7.0 welcome\r\n")
}

func (c *session) challenge(text string) (string, error) {
	if c.write("334 "+base64.StdEncoding.EncodeToString([]byte(text))+"\r\n") != nil || c.w.Flush() != nil {
		return "", errEnd
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", errEnd
	}
	return decode(strings.TrimRight(line, "\r\n")), nil
}

func decode(s string) string {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return ""
	}
	return string(b)
}
