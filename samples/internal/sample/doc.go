// Package sample contains the shared code of the sample apps: serve until the
// platform stops the app, respond with JSON, check a password, read the bound
// services and settings, and pass requests on to another server.
//
// It may import the standard library only, and only samples import it: a copy of
// a sample needs only this small folder in addition.
package sample
