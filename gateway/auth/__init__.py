"""Turn an access token into a :class:`~gateway.model.Principal`: the gateway as an OAuth 2.0 resource server.

RFC 6750 (bearer tokens), RFC 9068 and RFC 8725 (JWT access tokens), RFC 9728 (resource metadata), RFC 7662
(introspection), RFC 9449 (DPoP).
"""
