// Package roots reads the certificate authorities that outgoing TLS connections trust
// beside those of the system: --trusted-ca.
//
// Every outgoing client gets its TLS configuration from here; a test in archtest finds
// those that do not.
//
// Imports: the standard library only.
package roots
