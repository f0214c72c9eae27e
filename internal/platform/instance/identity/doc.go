// Package identity issues the certificates with which app instances prove who they are,
// as Cloud Foundry's instance identity does: for other apps, and for services that trust
// the platform's authority.
//
// A certificate is valid for a day. Its subject has the guids of the instance, the app, the
// space and the organization; its alternative names are the instance's address and guid,
// and the names of the app's internal routes.
//
// It must not know where certificates go or where the authority is stored.
//
// Imports: the standard library only.
package identity
