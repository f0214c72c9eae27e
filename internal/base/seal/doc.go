// Package seal encrypts the secret columns of the database.
//
// A sealed value is one line of printable text,
//
//	s1.<key id>.<base64url of nonce and ciphertext>
//
// made with AES-256-GCM. "s1" is the version of this format; the key id says
// which key of the keyring opens it, so that keys can be rotated while old
// values still exist. Every value is bound to its location by the additional
// data, usually "table.column" and the row's key: copied to another row or
// column it does not open, so someone who can write to the database but has
// no key cannot move one tenant's password into another tenant's row.
//
// Every value gets a random 96-bit nonce. That is safe for about four
// billion values under one key, far more than one installation
// writes between two rotations.
//
// Imports: the standard library only.
package seal
