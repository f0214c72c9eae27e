// Package apitest runs the notification service for tests of its HTTP APIs: the
// real store and service, a directory of fake users, and no delivery. Every
// response is validated against the service's own OpenAPI description.
//
// Only tests import it.
//
// Imports: base/db, base/db/dbtest, base/fault, base/token, base/web, notify,
// notify/httpext, notify/httpv1, notify/httpv2, notify/notifydb,
// notify/template, github.com/getkin/kin-openapi/openapi3,
// github.com/getkin/kin-openapi/openapi3filter,
// github.com/getkin/kin-openapi/routers,
// github.com/getkin/kin-openapi/routers/legacy, github.com/go-jose/go-jose/v4,
// github.com/go-jose/go-jose/v4/jwt.
package apitest
