from tests.incidents.page import main

main()
