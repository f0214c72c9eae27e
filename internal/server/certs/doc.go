// Package certs keeps the certificates of a TLS listener: it reads them from files,
// reads them again when the files change, and selects the one that fits a client.
//
// A file that cannot be used never replaces a certificate that can: the old one stays in
// use, and the log says why.
//
// It must not know where certificates come from; package acme does.
//
// Imports: base/background.
package certs
