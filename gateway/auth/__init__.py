"""Turn an access token into a :class:`~gateway.model.Principal`: the gateway as an OAuth 2.0 resource server (RFC 6750,
RFC 9068 and RFC 8725 for JWTs, RFC 9728 for metadata, RFC 7662 for introspection, RFC 9449 for DPoP)."""
