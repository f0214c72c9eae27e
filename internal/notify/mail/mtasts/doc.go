// Package mtasts finds the policy by which a domain says that mail to it is to be encrypted
// (MTA-STS, RFC 8461), and checks what the policy promises: the names of the domain's mail
// servers and their certificates.
//
// Ingot sends through mail servers of the operator, which apply policies of receiving domains.
// What is here shows operators the policy of their own domain.
//
// It must not import an HTTP API or a store. It connects only to addresses that its guard permits.
//
// Imports: base/safedial, notify/mail/smtp.
package mtasts
