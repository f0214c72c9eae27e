// Package facetest is the notification service for tests of its HTTP faces: the
// real store and service, a directory of made-up users, and no delivery. Every
// answer is checked against the service's own OpenAPI description.
//
// It may import everything of notify and its store; only tests import it.
package facetest
