// Package home has the first page of the console, and the search across apps, spaces, service
// instances and users. It imports the parts that it searches.
//
// Imports: base/cfapi, console/access, console/apps, console/page,
// console/services.
package home
