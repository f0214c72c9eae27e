// Package services has the console's pages of service instances: the list, the marketplace, forms
// made of a broker's JSON schemas, and the services of an app.
//
// Of the other parts it may import apps only, for the frame of an app's page.
//
// Imports: base/cfapi, base/fault, base/web, console/apps, console/page.
package services
