// Package platformdb is the platform's store: users and jobs, on either
// database.
//
// It may import internal/db and fault. It must not import the API it serves
// nor any other store; what it returns are plain rows that the system hands to
// the API.
package platformdb
