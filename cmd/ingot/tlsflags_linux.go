package main

import "ingot/internal/system"

// tlsOptions are the flags for TLS.
type tlsOptions struct {
	TLSListen         string `long:"tls-listen" env:"INGOT_TLS_LISTEN" value-name:"HOST:PORT" description:"Address for HTTPS: platform API, authorization server, notification service and apps, such as 0.0.0.0:443; requests without TLS to --listen are redirected there, see tls.md"`
	TLSCert           string `long:"tls-cert" env:"INGOT_TLS_CERT" value-name:"LIST" description:"Files with certificates for --tls-listen (PEM, with those of the issuers), separated by commas; they are read again when they change"`
	TLSKey            string `long:"tls-key" env:"INGOT_TLS_KEY" value-name:"LIST" description:"Files with the private keys of --tls-cert, in the same order"`
	PlainHTTP         bool   `long:"plain-http" env:"INGOT_PLAIN_HTTP" description:"Serve requests without TLS on --listen instead of redirecting them to --tls-listen"`
	HSTS              string `long:"hsts" env:"INGOT_HSTS" value-name:"VALUE" description:"Strict-Transport-Security header of HTTPS responses, such as max-age=31536000; apps may send their own (default: none)"`
	ACMEEmail         string `long:"acme-email" env:"INGOT_ACME_EMAIL" value-name:"ADDRESS" description:"Obtain certificates with ACME for the server's names and for hosts with a route; the address of the account with the certificate authority"`
	ACMEDirectory     string `long:"acme-directory" env:"INGOT_ACME_DIRECTORY" value-name:"URL" description:"ACME directory of the certificate authority (default: Let's Encrypt)"`
	ACMECA            string `long:"acme-ca" env:"INGOT_ACME_CA" value-name:"FILE" description:"Certificates (PEM) that authenticate the server of --acme-directory (default: the system's)"`
	ACMEDNSHook       string `long:"acme-dns-hook" env:"INGOT_ACME_DNS_HOOK" value-name:"PROGRAM" description:"Program that creates and removes DNS records, called with present or cleanup, NAME and VALUE; enables wildcard certificates for the domain and shared domains"`
	ForwardClientCert string `long:"forward-client-cert" env:"INGOT_FORWARD_CLIENT_CERT" value-name:"MODE" description:"What apps get as X-Forwarded-Client-Cert: off removes the header; always_forward, forward and sanitize_set are the modes of Cloud Foundry's router"`
	ClientCA          string `long:"client-ca" env:"INGOT_CLIENT_CA" value-name:"FILE" description:"Certificate authorities (PEM) of clients, with --forward-client-cert forward or sanitize_set"`
}

func (o tlsOptions) config() system.TLSConfig {
	return system.TLSConfig{
		TLSListen: o.TLSListen, TLSCerts: o.TLSCert, TLSKeys: o.TLSKey, PlainHTTP: o.PlainHTTP, HSTS: o.HSTS,
		ACMEEmail: o.ACMEEmail, ACMEDirectory: o.ACMEDirectory, ACMECA: o.ACMECA, ACMEDNSHook: o.ACMEDNSHook,
		ForwardClientCert: o.ForwardClientCert, ClientCA: o.ClientCA,
	}
}
